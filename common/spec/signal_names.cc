#include "common/spec/signal_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

namespace tide {
namespace {

struct Named {
  std::string_view name;
  int32_t number;
};
constexpr std::array<Named, 12> kSignals = {{{"SIGHUP", SIGHUP},
                                             {"SIGINT", SIGINT},
                                             {"SIGQUIT", SIGQUIT},
                                             {"SIGKILL", SIGKILL},
                                             {"SIGUSR1", SIGUSR1},
                                             {"SIGUSR2", SIGUSR2},
                                             {"SIGALRM", SIGALRM},
                                             {"SIGTERM", SIGTERM},
                                             {"SIGCONT", SIGCONT},
                                             {"SIGSTOP", SIGSTOP},
                                             {"SIGURG", SIGURG},
                                             {"SIGWINCH", SIGWINCH}}};
constexpr int32_t kSignalMax = 64;
constexpr size_t kPrefix = 3;  // "SIG"

}  // namespace

Result<int32_t> ParseSignal(std::string_view text) {
  int32_t number = 0;
  const auto* known = std::find_if(kSignals.begin(), kSignals.end(), [&](const Named& each) {
    return each.name == text || each.name.substr(kPrefix) == text;
  });
  if (known != kSignals.end()) {
    number = known->number;
  } else {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stop != text.data() + text.size()) {
      number = 0;
    }
  }
  if (number == SIGKILL || number == SIGSTOP) {
    return Fail(ErrorCode::kInvalidArgument, "no program can catch SIGKILL or SIGSTOP");
  }
  if (number < 1 || number > kSignalMax) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(text.substr(0, 40)) +
                    "\" is no signal; write a name such as SIGUSR1 or a number from 1 to 64");
  }
  return number;
}

std::string SignalName(int32_t signal) {
  const auto* known = std::find_if(
      kSignals.begin(), kSignals.end(), [&](const Named& each) { return each.number == signal; });
  return known == kSignals.end() ? std::to_string(signal) : std::string(known->name);
}

}  // namespace tide
