// Memory of a PortWatch as lines of words between single blanks:
//   tide-ports 1 <boot id> <last sample>
//   port <device> <name> <flags> <12 numbers, "-" for a counter that is not known>
//   flash <device> <time>…
// Times are nanoseconds of Unix time, 0 = not set. Flags: letters of conditions, "-" for none.

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "agent/health/port_watch.h"

namespace tide::health {
namespace {

constexpr std::string_view kSavedHead = "tide-ports 1";
constexpr uint64_t kSavedTimeMax = 4'000'000'000'000'000'000;  // spans between times stay in range

struct FlagLetter {
  char letter;
  bool PortRecord::* flag;
};
constexpr auto kFlagLetters = std::to_array<FlagLetter>({
    {'w', &PortRecord::wanted},
    {'d', &PortRecord::down},
    {'r', &PortRecord::degraded},
    {'g', &PortRecord::gone},
    {'n', &PortRecord::noisy},
});

// The words of one line; every call takes the next one.
class SavedWords {
 public:
  explicit SavedWords(std::string_view line) : rest_(line) {}

  [[nodiscard]] bool AtEnd() const { return rest_.empty(); }

  // Returns the next word that can name a port; "" when there is none.
  std::string_view Word() {
    const size_t end = rest_.find(' ');
    const std::string_view word = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? "" : rest_.substr(end + 1);
    return IsPortWord(word) ? word : "";
  }

  [[nodiscard]] bool Take(uint64_t most, uint64_t& number) {
    const std::string_view word = Word();
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return !word.empty() && error == std::errc() && stop == word.data() + word.size() &&
           number <= most;
  }
  [[nodiscard]] bool Take(uint64_t most, uint32_t& number) {
    uint64_t wide = 0;
    const bool taken = Take(most, wide);
    number = static_cast<uint32_t>(wide);
    return taken;
  }
  [[nodiscard]] bool Take(Instant& at) {
    uint64_t nanos = 0;
    const bool taken = Take(kSavedTimeMax, nanos);
    at = Instant::FromUnixNanos(static_cast<int64_t>(taken ? nanos : 0));
    return taken;
  }
  [[nodiscard]] bool Take(std::optional<uint64_t>& number) {
    if (rest_ == "-" || rest_.starts_with("- ")) {
      Word();
      number.reset();
      return true;
    }
    return Take(std::numeric_limits<uint64_t>::max(), number.emplace());
  }

 private:
  std::string_view rest_;
};

void SaveNumber(std::string& text, uint64_t number) {
  text += ' ';
  text += std::to_string(number);
}

void SaveTime(std::string& text, Instant at) {
  SaveNumber(text, static_cast<uint64_t>(std::max<int64_t>(at.unix_nanos(), 0)));
}

std::string SavedPort(const PortRecord& port) {
  std::string flags;
  for (const FlagLetter& each : kFlagLetters) {
    if (port.*each.flag) {
      flags += each.letter;
    }
  }
  std::string text = "port " + port.device + " " + port.name + " " + (flags.empty() ? "-" : flags);
  for (const Instant at : {port.last_active, port.down_since, port.last_down, port.loud_at}) {
    SaveTime(text, at);
  }
  for (const auto& count : port.counted) {
    text += count ? " " + std::to_string(*count) : " -";
  }
  for (const uint64_t grown : port.grown) {
    SaveNumber(text, grown);
  }
  SaveNumber(text, port.best_mbps);
  SaveNumber(text, port.best_lanes);
  SaveNumber(text, port.absent);
  SaveNumber(text, port.below);
  return text + "\n";
}

bool TakeFlags(std::string_view flags, PortRecord& port) {
  return flags == "-" || (!flags.empty() && std::ranges::all_of(flags, [&](char letter) {
           const auto* const at = std::ranges::find(kFlagLetters, letter, &FlagLetter::letter);
           return at != kFlagLetters.end() && !std::exchange(port.*at->flag, true);
         }));
}

std::unexpected<Error> CorruptPorts(std::string_view line) {
  return Fail(ErrorCode::kCorrupt,
              "the saved state of network ports has a line that was not written so: '" +
                  std::string(line.substr(0, 80)) + "'");
}

}  // namespace

std::string PortWatch::Save() const {
  std::string text = std::string(kSavedHead) + " " + (boot_id_.empty() ? "-" : boot_id_);
  SaveTime(text, last_at_);
  text += '\n';
  for (const auto& [device, port] : ports_) {
    text += SavedPort(port);
  }
  for (const auto& [device, flashes] : flashes_) {
    text += "flash " + device;
    for (const Instant at : flashes) {
      SaveTime(text, at);
    }
    text += '\n';
  }
  return text;
}

Result<PortWatch> PortWatch::Load(std::string_view saved, std::vector<PortExpectation> expected) {
  if (saved.size() > kSavedBytesMax) {
    return Fail(ErrorCode::kExhausted,
                "the saved state of network ports is larger than " +
                    std::to_string(kSavedBytesMax) + " bytes");
  }
  PortWatch watch(std::move(expected));
  bool first = true;
  while (first || !saved.empty()) {
    const size_t end = saved.find('\n');
    const std::string_view line = saved.substr(0, end);
    if (end == std::string_view::npos) {
      return CorruptPorts(line);
    }
    saved.remove_prefix(end + 1);
    if (first) {
      if (!line.starts_with(kSavedHead) || line.substr(kSavedHead.size(), 1) != " ") {
        return CorruptPorts(line);
      }
      SavedWords words(line.substr(kSavedHead.size() + 1));
      watch.boot_id_ = words.Word();
      if (watch.boot_id_.empty() || !words.Take(watch.last_at_) || !words.AtEnd()) {
        return CorruptPorts(line);
      }
      first = false;
    } else if (line.starts_with("flash ")) {
      TIDE_TRY(watch.LoadFlashes(line));
    } else {
      TIDE_TRY(watch.LoadPort(line));
    }
  }
  return watch;
}

Status PortWatch::LoadPort(std::string_view line) {
  SavedWords words(line);
  PortRecord port;
  const bool is_port = words.Word() == "port";
  port.device = words.Word();
  port.name = words.Word();
  bool fine =
      is_port && !port.device.empty() && !port.name.empty() && TakeFlags(words.Word(), port);
  for (Instant* at : {&port.last_active, &port.down_since, &port.last_down, &port.loud_at}) {
    fine = fine && words.Take(*at);
  }
  for (auto& count : port.counted) {
    fine = fine && words.Take(count);
  }
  for (uint64_t& grown : port.grown) {
    fine = fine && words.Take(std::numeric_limits<uint64_t>::max(), grown);
  }
  fine = fine && words.Take(kPortRateMbpsMax, port.best_mbps) &&
         words.Take(std::numeric_limits<uint32_t>::max(), port.best_lanes) &&
         words.Take(kSamplesToJudge, port.absent) && words.Take(kSamplesToJudge, port.below) &&
         words.AtEnd();
  const std::string device = port.device;
  if (!fine || ports_.size() == kPortsMax || !ports_.emplace(device, std::move(port)).second) {
    return CorruptPorts(line);
  }
  return {};
}

Status PortWatch::LoadFlashes(std::string_view line) {
  SavedWords words(line);
  words.Word();
  const std::string device(words.Word());
  std::vector<Instant> flashes;
  bool fine = !device.empty() && !words.AtEnd();
  while (fine && !words.AtEnd()) {
    fine = flashes.size() < kFlashesMax && words.Take(flashes.emplace_back());
  }
  if (!fine || flashes_.size() == kPortsMax ||
      !flashes_.emplace(device, std::move(flashes)).second) {
    return CorruptPorts(line);
  }
  return {};
}

}  // namespace tide::health
