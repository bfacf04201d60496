#include "agent/validators/memory_check.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "agent/validators/cores.h"
#include "agent/validators/sysfs.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr size_t kBlockWords = 512;          // written, then sent to memory
constexpr size_t kBlocksBetweenLooks = 256;  // at the clock
constexpr size_t kBlockBytes = kBlockWords * sizeof(uint64_t);
constexpr uint64_t kUsualBytes = 1ULL << 30U;
#if defined(__x86_64__)
constexpr uint64_t kLeastBytes = 1ULL << 20U;
#else
// Caches cannot be flushed here; a whole pass of writing lies between a write and its read instead.
constexpr uint64_t kLeastBytes = 64ULL << 20U;
#endif
constexpr double kFirstWriteShare = 0.3;  // of the time: memory not written by then is left out
constexpr double kPatternShare = 0.8;     // of the time; the rest measures
constexpr double kLeastTriadShare = 0.1;

// Solid ones and zeroes come first: each finds bits that stay at the other value.
enum class Pattern : uint8_t {
  kOnes,
  kZeroes,
  kFives,
  kTens,
  kWalkingOnes,
  kRandom
};
constexpr std::array kPatterns = {Pattern::kOnes,
                                  Pattern::kZeroes,
                                  Pattern::kFives,
                                  Pattern::kTens,
                                  Pattern::kWalkingOnes,
                                  Pattern::kRandom};
constexpr size_t kLeastPasses = 2;

std::string_view PatternName(Pattern pattern) {
  switch (pattern) {
    case Pattern::kOnes:
      return "ones";
    case Pattern::kZeroes:
      return "zeroes";
    case Pattern::kFives:
      return "0x55";
    case Pattern::kTens:
      return "0xaa";
    case Pattern::kWalkingOnes:
      return "walking ones";
    case Pattern::kRandom:
      return "random";
  }
  return "";
}

// Mixes as SplitMix64 does; inline here because every word goes through it.
uint64_t Mixed(uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

// Calls `use` with the function that gives the word at an index. Two of the patterns depend on the
// index, so that a word which went to another address shows.
template <typename Use>
void WithPattern(Pattern pattern, uint64_t seed, Use use) {
  switch (pattern) {
    case Pattern::kOnes:
      return use([](uint64_t) { return ~0ULL; });
    case Pattern::kZeroes:
      return use([](uint64_t) { return 0ULL; });
    case Pattern::kFives:
      return use([](uint64_t) { return 0x5555555555555555ULL; });
    case Pattern::kTens:
      return use([](uint64_t) { return 0xaaaaaaaaaaaaaaaaULL; });
    case Pattern::kWalkingOnes:
      return use([seed](uint64_t index) { return 1ULL << (Mixed(seed + index) & 63U); });
    case Pattern::kRandom:
      return use([seed](uint64_t index) { return Mixed(seed + index * 0x9e3779b97f4a7c15ULL); });
  }
}

void Flush(std::span<uint64_t> block) {
#if defined(__x86_64__)
  constexpr size_t kLineWords = 8;
  for (size_t i = 0; i < block.size(); i += kLineWords) {
    _mm_clflush(&block[i]);
  }
#else
  static_cast<void>(block);
#endif
}

// Memory of its own, whole pages.
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept : words_(std::exchange(other.words_, {})) {}
  Region& operator=(Region&&) = delete;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (!words_.empty()) {
      ::munmap(words_.data(), words_.size_bytes());
    }
  }

  static Result<Region> Make(uint64_t bytes) {
    void* const start = ::mmap(nullptr,
                               static_cast<size_t>(bytes),
                               PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS,
                               -1,
                               0);
    if (start == MAP_FAILED) {
      return FailErrno("cannot allocate " + std::to_string(bytes >> 20U) + " MiB", errno);
    }
    ::madvise(start, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish
    Region region;
    region.words_ = {static_cast<uint64_t*>(start), static_cast<size_t>(bytes / sizeof(uint64_t))};
    return region;
  }

  [[nodiscard]] std::span<uint64_t> words() const { return words_; }

 private:
  std::span<uint64_t> words_;
};

struct WrongWord {
  uint64_t index = 0;
  uint64_t expected = 0;
  uint64_t found = 0;
  Pattern pattern = Pattern::kOnes;
};

// One CPU's share of the region.
struct Part {
  int cpu = 0;
  size_t first = 0;
  size_t words = 0;  // a whole number of blocks
  bool pinned = true;
  uint64_t wrong_words = 0;
  WrongWord wrong;  // the first
  double gbps = 0;
};

std::vector<Part> Divide(size_t words, const std::vector<int>& cpus) {
  std::vector<Part> parts;
  const size_t blocks = words / kBlockWords;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const size_t begin = blocks * i / cpus.size();
    const size_t end = blocks * (i + 1) / cpus.size();
    if (begin < end) {
      Part part;
      part.cpu = cpus[i];
      part.first = begin * kBlockWords;
      part.words = (end - begin) * kBlockWords;
      parts.push_back(part);
    }
  }
  return parts;
}

// Writes one part; past `deadline` (0: none) the part ends where it is, but not before it began.
void WritePart(
    std::span<uint64_t> region, Part& part, Pattern pattern, uint64_t seed, int64_t deadline) {
  WithPattern(pattern, seed, [&](auto word) {
    for (size_t done = 0; done < part.words; done += kBlockWords) {
      const bool look = deadline != 0 && done > 0 && done / kBlockWords % kBlocksBetweenLooks == 0;
      if (look && MonotonicNanos() > deadline) {
        part.words = done;
        return;
      }
      const size_t first = part.first + done;
      const std::span<uint64_t> block = region.subspan(first, kBlockWords);
      for (size_t i = 0; i < kBlockWords; ++i) {
        block[i] = word(first + i);
      }
      Flush(block);
    }
  });
}

void ReadPart(std::span<uint64_t> region, Part& part, Pattern pattern, uint64_t seed) {
  WithPattern(pattern, seed, [&](auto word) {
    // Every word is read once: a second look might find it right.
    const volatile uint64_t* const words = region.data();
    for (size_t index = part.first; index < part.first + part.words; ++index) {
      const uint64_t found = words[index];
      const uint64_t expected = word(index);
      if (found != expected) [[unlikely]] {
        if (part.wrong_words == 0) {
          part.wrong = {index, expected, found, pattern};
        }
        ++part.wrong_words;
      }
    }
  });
}

// Repeats a = b + s c until the deadline, at least once. Bytes count as in STREAM: two reads and a
// write a word.
void MeasurePart(std::span<uint64_t> region, Part& part, int64_t deadline) {
  auto* const values = reinterpret_cast<double*>(region.data() + part.first);
  const size_t n = part.words / 3;
  double* const a = values;
  const double* const b = values + n;
  const double* const c = values + 2 * n;
  std::fill_n(values, part.words, 1.0);  // numbers, not patterns: some of those are slow
  const int64_t start = MonotonicNanos();
  uint64_t bytes = 0;
  int64_t now = start;
  while (bytes == 0 || now < deadline) {
    for (size_t i = 0; i < n; ++i) {
      a[i] = b[i] + 3.0 * c[i];
    }
    asm volatile("" : : "r"(a) : "memory");
    bytes += 3 * n * sizeof(double);
    now = MonotonicNanos();
  }
  part.gbps = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(now - start, 1));
}

// Does `work` for every part at once, each on its CPU. Errors: kExhausted without threads.
template <typename Work>
Status OnEveryCpu(std::vector<Part>& parts, Work work) {
  std::vector<std::jthread> threads;  // joined on every path
  threads.reserve(parts.size());
  try {
    for (Part& part : parts) {
      threads.emplace_back([&part, &work] {
        part.pinned = PinTo(part.cpu);
        work(part);
      });
    }
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kExhausted, std::string("cannot start a thread a CPU: ") + error.what());
  }
  return {};
}

struct EdacCounts {
  uint64_t corrected = 0;
  uint64_t uncorrected = 0;
};

// Returns the kernel's counts of memory errors by memory controller.
std::map<std::string, EdacCounts> ReadEdac(const std::string& root) {
  std::map<std::string, EdacCounts> counts;
  const std::string folder = root + "/devices/system/edac/mc";
  for (const std::string& name : ListSysfs(folder, "mc").names) {
    const auto corrected = ReadSysfsNumber(folder + "/" + name + "/ce_count");
    const auto uncorrected = ReadSysfsNumber(folder + "/" + name + "/ue_count");
    if (corrected || uncorrected) {
      counts[name] = {corrected.value_or(0), uncorrected.value_or(0)};
    }
  }
  return counts;
}

// Errors that EDAC counted during the check, with the controllers they are of.
struct EdacGrowth {
  uint64_t corrected = 0;
  uint64_t uncorrected = 0;
  std::string where;
};

EdacGrowth Growth(const std::map<std::string, EdacCounts>& before,
                  const std::map<std::string, EdacCounts>& after) {
  constexpr size_t kWhereMax = 400;
  EdacGrowth growth;
  for (const auto& [name, now] : after) {
    const auto then = before.find(name);
    if (then == before.end()) {
      continue;
    }
    const auto grown = [](uint64_t from, uint64_t to) { return to > from ? to - from : 0; };
    const uint64_t corrected = grown(then->second.corrected, now.corrected);
    const uint64_t uncorrected = grown(then->second.uncorrected, now.uncorrected);
    growth.corrected += corrected;
    growth.uncorrected += uncorrected;
    if (corrected + uncorrected > 0 && growth.where.size() < kWhereMax) {
      growth.where += (growth.where.empty() ? "" : ", ") + name;
    }
  }
  return growth;
}

std::optional<uint64_t> AvailableBytes(const std::string& meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  const auto text = ReadFile(meminfo, 1U << 16U);
  const size_t key = text ? text->find(kKey) : std::string::npos;
  if (key == std::string::npos) {
    return std::nullopt;
  }
  const size_t number = text->find_first_not_of(' ', key + kKey.size());
  if (number == std::string::npos) {
    return std::nullopt;
  }
  const auto kib = NumberBefore(std::string_view(*text).substr(number), " kB");
  return kib && *kib < 1e15 ? std::optional(static_cast<uint64_t>(*kib) << 10U) : std::nullopt;
}

// Errors: kExhausted when there is too little memory for any check.
Result<uint64_t> BytesToTake(const MemoryOptions& options) {
  const auto available = AvailableBytes(options.meminfo);
  if (!available) {
    return Fail(ErrorCode::kExhausted,
                options.meminfo + " does not tell how much memory is available");
  }
  const uint64_t wanted = options.bytes == 0
                              ? std::max(std::min(kUsualBytes, *available / 4), kLeastBytes)
                              : std::max(options.bytes, kLeastBytes);
  const uint64_t bytes = std::min(wanted, *available / 2) / kBlockBytes * kBlockBytes;
  if (bytes < kLeastBytes) {
    return Fail(ErrorCode::kExhausted,
                "only " + std::to_string(*available >> 20U) + " MiB of memory are available");
  }
  return bytes;
}

std::string Text(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Hex(uint64_t value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string DescribeWrong(const Part& part) {
  std::string bits;
  for (uint64_t rest = part.wrong.expected ^ part.wrong.found; rest != 0; rest &= rest - 1) {
    bits += (bits.empty() ? "" : ",") + std::to_string(std::countr_zero(rest));
  }
  return "CPU " + std::to_string(part.cpu) + ": wrong word at offset " +
         std::to_string(part.wrong.index * sizeof(uint64_t)) + ", pattern " +
         std::string(PatternName(part.wrong.pattern)) + ": expected " + Hex(part.wrong.expected) +
         ", found " + Hex(part.wrong.found) + " (bits " + bits + "), " +
         std::to_string(part.wrong_words) + " wrong in all";
}

class Check {
 public:
  Check(const MemoryOptions& options, Region region, std::vector<Part> parts)
      : options_(options),
        region_(std::move(region)),
        parts_(std::move(parts)),
        start_(MonotonicNanos()) {
    std::random_device random;
    seed_ = (static_cast<uint64_t>(random()) << 32U) | random();
  }

  // Errors: kExhausted when threads are missing: nothing is known then.
  Status Run() {
    const auto before = ReadEdac(options_.sysfs_root);
    has_edac_ = !before.empty();
    TIDE_TRY(RunPatterns());
    if (!IsWrong()) {
      const int64_t least = MonotonicNanos() + Nanos(kLeastTriadShare);
      const int64_t deadline = std::max(start_ + Nanos(1), least);
      TIDE_TRY(OnEveryCpu(
          parts_, [this, deadline](Part& part) { MeasurePart(region_.words(), part, deadline); }));
    }
    growth_ = Growth(before, ReadEdac(options_.sysfs_root));
    return {};
  }

  [[nodiscard]] Verdict Judge() const {
    Verdict verdict;
    verdict.validator = "memory";
    verdict.unit = "GB/s";
    uint64_t words = 0;
    for (const Part& part : parts_) {
      verdict.value += part.gbps;
      words += part.words;
    }
    const std::string did = std::to_string((words * sizeof(uint64_t)) >> 20U) + " MiB by " +
                            std::to_string(parts_.size()) + " CPUs, " + std::to_string(passes_) +
                            " patterns written and read back";
    const std::string bad = Bad(verdict.value);
    const std::string odd = Odd();
    verdict.outcome = !bad.empty()   ? Outcome::kFail
                      : !odd.empty() ? Outcome::kWarn
                                     : Outcome::kPass;
    if (verdict.outcome == Outcome::kPass) {
      verdict.evidence = did + ", every word right; triad " + Text("%.1f GB/s", verdict.value) +
                         (has_edac_ ? "" : "; the kernel counts no memory errors here");
    } else {
      verdict.evidence = bad + (bad.empty() || odd.empty() ? "" : "; ") + odd + " (" + did + ")";
    }
    return verdict;
  }

 private:
  [[nodiscard]] int64_t Nanos(double share) const {
    return static_cast<int64_t>(options_.seconds * share * 1e9);
  }

  [[nodiscard]] bool IsWrong() const {
    return std::ranges::any_of(parts_, [](const Part& part) { return part.wrong_words > 0; });
  }

  // Repeats passes until the next would not end in time, or to the first with a wrong word.
  Status RunPatterns() {
    const int64_t deadline = start_ + Nanos(kPatternShare);
    int64_t last = 0;
    while (passes_ < kLeastPasses || MonotonicNanos() + last < deadline) {
      const int64_t begin = MonotonicNanos();
      TIDE_TRY(Pass(kPatterns[passes_ % kPatterns.size()], Mixed(seed_ + passes_)));
      ++passes_;
      last = MonotonicNanos() - begin;
      if (IsWrong()) {
        break;
      }
    }
    return {};
  }

  // Writes all before it reads any: what is read has left the caches meanwhile.
  Status Pass(Pattern pattern, uint64_t seed) {
    const int64_t deadline = passes_ == 0 ? start_ + Nanos(kFirstWriteShare) : 0;
    TIDE_TRY(OnEveryCpu(parts_, [=, this](Part& part) {
      WritePart(region_.words(), part, pattern, seed, deadline);
    }));
    PlantFault();
    return OnEveryCpu(parts_,
                      [=, this](Part& part) { ReadPart(region_.words(), part, pattern, seed); });
  }

  void PlantFault() {
    constexpr uint64_t kBit = 1ULL << 37U;
    uint64_t& word = region_.words()[parts_.back().first + parts_.back().words / 2];
    if (options_.plant == MemoryPlant::kFlip && passes_ == 0) {
      word ^= kBit;
    } else if (options_.plant == MemoryPlant::kStuck) {
      word &= ~kBit;
    }
  }

  [[nodiscard]] std::string Bad(double gbps) const {
    constexpr size_t kNamed = 16;
    std::vector<std::string> findings;
    for (const Part& part : parts_) {
      if (part.wrong_words > 0 && findings.size() < kNamed) {
        findings.push_back(DescribeWrong(part));
      }
    }
    if (findings.empty() && gbps < options_.floor_gbps) {
      findings.push_back("triad " + Text("%.1f GB/s", gbps) + " is slower than " +
                         Text("%.1f GB/s", options_.floor_gbps));
    }
    if (growth_.uncorrected > 0) {
      findings.push_back(std::to_string(growth_.uncorrected) +
                         " uncorrected memory errors meanwhile (" + growth_.where + ")");
    }
    std::string text;
    for (const std::string& finding : findings) {
      text += (text.empty() ? "" : "; ") + finding;
    }
    return text;
  }

  [[nodiscard]] std::string Odd() const {
    if (growth_.corrected > 0) {
      return std::to_string(growth_.corrected) + " corrected memory errors meanwhile (" +
             growth_.where + ")";
    }
    const auto unpinned =
        std::ranges::find_if(parts_, [](const Part& part) { return !part.pinned; });
    return unpinned == parts_.end() ? ""
                                    : "could not be pinned to CPU " + std::to_string(unpinned->cpu);
  }

  const MemoryOptions& options_;
  Region region_;
  std::vector<Part> parts_;
  int64_t start_;
  uint64_t seed_ = 0;
  uint64_t passes_ = 0;
  bool has_edac_ = false;
  EdacGrowth growth_;
};

Result<Verdict> TryMemory(const MemoryOptions& options) {
  const std::vector<int> cpus = AllowedCpus();
  if (cpus.empty()) {
    return FailErrno("cannot tell which CPUs there are", errno);
  }
  TIDE_ASSIGN(const uint64_t bytes, BytesToTake(options));
  TIDE_ASSIGN(Region region, Region::Make(bytes));
  std::vector<Part> parts = Divide(region.words().size(), cpus);
  Check check(options, std::move(region), std::move(parts));
  TIDE_TRY(check.Run());
  return check.Judge();
}

}  // namespace

Verdict CheckMemory(const MemoryOptions& options) {
  const int64_t start = MonotonicNanos();
  auto tried = TryMemory(options);
  Verdict verdict;
  if (tried) {
    verdict = std::move(*tried);
  } else {
    verdict.validator = "memory";
    verdict.unit = "GB/s";
    verdict.evidence = tried.error().message;
  }
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
