#pragma once
// How input and output of a command travel over HTTP (`tide exec`): frames of one byte kind, four
// bytes length (big endian), payload. Numbers in payloads are big endian, too. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide {

enum class FrameKind : uint8_t {
  // To the person.
  kOut = 1,    // bytes
  kErr = 2,    // bytes
  kTaken = 3,  // 8 bytes: how much input left for the command so far
  kEnded = 4,  // 1 byte exit code, 1 byte signal or 0, then why in words; last
  kError = 5,  // in words: nobody knows how the command ended; last
  kAlive = 6,  // nothing: sent when there is nothing else
  // To the command.
  kInput = 16,       // bytes
  kEndOfInput = 17,  // nothing
  kResize = 18,      // 2 bytes rows, 2 bytes columns
  kSignal = 19,      // 1 byte
};

inline constexpr size_t kFramePayloadMax = 64U << 10U;

struct Frame {
  FrameKind kind = FrameKind::kAlive;
  std::string payload;
  bool operator==(const Frame&) const = default;
};

struct FrameSize {
  uint16_t rows = 0;
  uint16_t columns = 0;
  bool operator==(const FrameSize&) const = default;
};

struct FrameEnd {
  uint8_t code = 0;
  uint8_t signal = 0;
  std::string reason;
  bool operator==(const FrameEnd&) const = default;
};

// Longer payloads become several frames; of words what is too long is cut.
void AppendFrame(std::string& to, FrameKind kind, std::string_view payload = {});
void AppendTaken(std::string& to, uint64_t bytes);
void AppendResize(std::string& to, FrameSize size);
void AppendSignal(std::string& to, int signal);
void AppendEnd(std::string& to, const FrameEnd& end);

// Nothing for a payload of another form.
[[nodiscard]] std::optional<uint64_t> TakenOf(const Frame& frame);
[[nodiscard]] std::optional<FrameSize> SizeOf(const Frame& frame);
[[nodiscard]] std::optional<int> SignalOf(const Frame& frame);
[[nodiscard]] std::optional<FrameEnd> EndOf(const Frame& frame);

// Cuts a stream of bytes, in pieces of any size, into frames.
class FrameReader {
 public:
  void Append(std::string_view data) { data_ += data; }
  // The next whole frame; nothing until more was appended. Errors: kInvalidArgument for an unknown
  // kind or a length beyond the bound; what follows has no meaning.
  [[nodiscard]] Result<std::optional<Frame>> Next();
  // Bytes of a frame that is not whole yet.
  [[nodiscard]] size_t pending() const { return data_.size() - at_; }

 private:
  std::string data_;
  size_t at_ = 0;
};

}  // namespace tide
