#include "agent/devices/numa.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>

#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr size_t kFileBytesMax = 64U << 10U;
constexpr std::string_view kBlank = " \t\r\n";

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// "/dev/nvidia3" -> 3; nothing for "/dev/nvidiactl".
std::optional<uint32_t> MinorOf(const std::string& device) {
  constexpr std::string_view kPrefix = "/nvidia";
  const size_t name = device.rfind('/');
  return name != std::string::npos && device.compare(name, kPrefix.size(), kPrefix) == 0
             ? Number(std::string_view(device).substr(name + kPrefix.size()))
             : std::nullopt;
}

// Domains may have more than four digits.
bool ComesBefore(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// The name of a GPU's folder with small letters.
std::string AddressOf(const std::filesystem::path& folder) {
  std::string pci = folder.filename();
  std::ranges::transform(pci, pci.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return pci;
}

std::filesystem::directory_iterator GpuFolders(const std::string& proc, std::error_code& none) {
  return std::filesystem::directory_iterator(proc + "/driver/nvidia/gpus", none);
}

Result<GpuCpus> ReadOne(const std::string& folder, const std::string& sys) {
  GpuCpus gpu;
  gpu.pci = AddressOf(folder);
  const std::string about = folder + "/information";
  TIDE_ASSIGN(const std::string information, ReadFile(about, kFileBytesMax));
  const auto minor = ParseDeviceMinor(information);
  if (!minor) {
    return Fail(ErrorCode::kCorrupt, about + " has no line 'Device Minor: <number>'");
  }
  gpu.minor = *minor;
  const std::string list = sys + "/bus/pci/devices/" + gpu.pci + "/local_cpulist";
  TIDE_ASSIGN(const std::string text, ReadFile(list, kFileBytesMax));
  auto cpus = ParseCpuList(text);
  if (!cpus) {
    return Fail(ErrorCode::kCorrupt, list + ": " + cpus.error().message);
  }
  gpu.cpus = *std::move(cpus);
  return gpu;
}

}  // namespace

Result<std::vector<uint32_t>> ParseCpuList(std::string_view text) {
  std::set<uint32_t> cpus;
  std::string_view rest = Trimmed(text);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = part.find('-');
    const auto first = Number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : Number(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kCpusMax || comma + 1 == rest.size()) {
      return Fail(ErrorCode::kCorrupt,
                  "'" + std::string(Trimmed(text).substr(0, 80)) +
                      "' is not a list of CPUs below " + std::to_string(kCpusMax) + ", as 0-3,8");
    }
    for (uint32_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.insert(cpu);
    }
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return std::vector<uint32_t>(cpus.begin(), cpus.end());
}

std::optional<uint32_t> ParseDeviceMinor(std::string_view information) {
  constexpr std::string_view kName = "Device Minor:";
  while (!information.empty()) {
    const size_t end = information.find('\n');
    const std::string_view line = Trimmed(information.substr(0, end));
    if (line.starts_with(kName)) {
      return Number(Trimmed(line.substr(kName.size())));
    }
    information = end == std::string_view::npos ? "" : information.substr(end + 1);
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> ReadGpuAddresses(const std::string& proc) {
  std::error_code none;
  std::vector<std::string> addresses;
  std::filesystem::directory_iterator it = GpuFolders(proc, none);
  if (none) {
    return std::nullopt;
  }
  for (const std::filesystem::directory_iterator end; it != end && !none; it.increment(none)) {
    addresses.push_back(AddressOf(it->path()));
  }
  std::ranges::sort(addresses, ComesBefore);
  return addresses;
}

Result<std::vector<GpuCpus>> ReadGpuCpus(const std::string& proc, const std::string& sys) {
  std::vector<GpuCpus> gpus;
  std::error_code none;  // without the driver there is no such folder
  for (std::filesystem::directory_iterator it = GpuFolders(proc, none), end; it != end && !none;
       it.increment(none)) {
    TIDE_ASSIGN(GpuCpus gpu, ReadOne(it->path(), sys));
    gpus.push_back(std::move(gpu));
  }
  std::ranges::sort(gpus, ComesBefore, &GpuCpus::pci);
  return gpus;
}

Result<std::vector<GpuCpus>> GivenGpuCpus(const std::vector<GpuCpus>& all,
                                          const std::vector<DeviceNode>& devices,
                                          const std::vector<uint32_t>& gpus) {
  std::set<uint32_t> minors;
  for (const DeviceNode& device : devices) {
    if (const auto minor = MinorOf(device.host_path)) {
      minors.insert(*minor);
    }
  }
  std::vector<GpuCpus> given;
  if (minors.empty()) {
    for (const uint32_t gpu : gpus) {
      if (gpu >= all.size()) {
        return Fail(ErrorCode::kNotFound,
                    "the NVIDIA driver has no GPU " + std::to_string(gpu) + ", it has " +
                        std::to_string(all.size()));
      }
      given.push_back(all[gpu]);
    }
    return given;
  }
  std::ranges::copy_if(all, std::back_inserter(given), [&](const GpuCpus& gpu) {
    return minors.erase(gpu.minor) != 0;
  });
  if (!minors.empty()) {
    return Fail(ErrorCode::kNotFound,
                "the NVIDIA driver does not name /dev/nvidia" + std::to_string(*minors.begin()));
  }
  return given;
}

Result<std::vector<uint32_t>> CpusOfRank(const std::vector<GpuCpus>& given,
                                         uint32_t local_rank,
                                         uint32_t ranks,
                                         const std::vector<uint32_t>& allowed) {
  const bool one_each = given.size() == ranks && local_rank < given.size();
  std::set<uint32_t> cpus;
  for (size_t i = 0; i < given.size(); ++i) {
    if (one_each && i != local_rank) {
      continue;
    }
    std::vector<uint32_t> usable;
    std::ranges::set_intersection(given[i].cpus, allowed, std::back_inserter(usable));
    if (usable.empty()) {
      return Fail(ErrorCode::kNotFound,
                  "the agent may use none of the " + std::to_string(given[i].cpus.size()) +
                      " CPUs next to GPU " + given[i].pci);
    }
    cpus.insert(usable.begin(), usable.end());
  }
  return std::vector<uint32_t>(cpus.begin(), cpus.end());
}

std::vector<uint32_t> AllowedCpus() {
  std::vector<uint32_t> cpus;
  std::array<cpu_set_t, kCpusMax / CPU_SETSIZE> set{};
  if (::sched_getaffinity(0, sizeof set, set.data()) == 0) {
    for (uint32_t cpu = 0; cpu < kCpusMax; ++cpu) {
      if (CPU_ISSET_S(cpu, sizeof set, set.data())) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

}  // namespace tide::agent
