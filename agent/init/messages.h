#pragma once
// What tide-init and its supervisor say to each other over their socket (SOCK_SEQPACKET: one
// message is one packet). Both ends are the same binary, so there is no version.

#include <cstdint>
#include <optional>
#include <string>

namespace tide::agent {

// Descriptors tide-init finds open: its TaskConfig as JSON, the socket, then for each rank the
// write ends of its stdout and stderr.
inline constexpr int kConfigFd = 3;
inline constexpr int kSocketFd = 4;
inline constexpr int kFirstLogFd = 5;
inline constexpr size_t kMaxMessage = 4096;

struct InitReport {
  enum class Kind {
    kStarted,  // sent by the rank's own process, whose pid the kernel attaches
    kExited,
    kError,  // a rank could not be started; `text` says why
  };
  Kind kind = Kind::kError;
  uint32_t index = 0;  // of the rank in TaskConfig::ranks
  int32_t code = 0;
  int32_t signal = 0;
  bool core = false;
  std::string text;
};

struct InitOrder {
  enum class Kind {
    kSignal,  // `value`: signal, for every rank's process group
    kStop,    // `value`: grace in ms between SIGTERM and SIGKILL
    kKill,
    kAdopted,  // the supervisor is now the parent: die with it
  };
  Kind kind = Kind::kKill;
  int64_t value = 0;
};

// False when the other end is gone.
bool SendReport(int fd, const InitReport& report);
bool SendOrder(int fd, const InitOrder& order);
[[nodiscard]] std::optional<InitReport> ParseReport(const std::string& text);
[[nodiscard]] std::optional<InitOrder> ParseOrder(const std::string& text);

struct Packet {
  enum class State {
    kNone,
    kMessage,
    kClosed,
  };
  State state = State::kNone;
  std::string text;
  int32_t sender = 0;  // pid of the sender in the receiver's view, if it asked for credentials
};

// Takes one message without waiting.
[[nodiscard]] Packet ReceivePacket(int fd);

}  // namespace tide::agent
