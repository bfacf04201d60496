#include "common/exec/frame.h"

#include <algorithm>

namespace tide {
namespace {

constexpr size_t kFrameHead = 5;
constexpr size_t kWordsMax = 1024;
constexpr int kSignalMax = 64;

bool IsKind(uint8_t byte) {
  return (byte >= static_cast<uint8_t>(FrameKind::kOut) &&
          byte <= static_cast<uint8_t>(FrameKind::kAlive)) ||
         (byte >= static_cast<uint8_t>(FrameKind::kInput) &&
          byte <= static_cast<uint8_t>(FrameKind::kSignal));
}

void AppendNumber(std::string& to, uint64_t number, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) {
    to += static_cast<char>(number >> (8 * i) & 0xFFU);
  }
}

uint64_t NumberAt(std::string_view text, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    number = number << 8U | static_cast<uint8_t>(text[at + i]);
  }
  return number;
}

}  // namespace

void AppendFrame(std::string& to, FrameKind kind, std::string_view payload) {
  do {
    const std::string_view part = payload.substr(0, kFramePayloadMax);
    to += static_cast<char>(kind);
    AppendNumber(to, part.size(), 4);
    to += part;
    payload.remove_prefix(part.size());
  } while (!payload.empty());
}

void AppendTaken(std::string& to, uint64_t bytes) {
  std::string payload;
  AppendNumber(payload, bytes, 8);
  AppendFrame(to, FrameKind::kTaken, payload);
}

void AppendResize(std::string& to, FrameSize size) {
  std::string payload;
  AppendNumber(payload, size.rows, 2);
  AppendNumber(payload, size.columns, 2);
  AppendFrame(to, FrameKind::kResize, payload);
}

void AppendSignal(std::string& to, int signal) {
  AppendFrame(to, FrameKind::kSignal, std::string(1, static_cast<char>(signal)));
}

void AppendEnd(std::string& to, const FrameEnd& end) {
  std::string payload;
  AppendNumber(payload, end.code, 1);
  AppendNumber(payload, end.signal, 1);
  AppendFrame(to, FrameKind::kEnded, payload + end.reason.substr(0, kWordsMax));
}

std::optional<uint64_t> TakenOf(const Frame& frame) {
  return frame.kind == FrameKind::kTaken && frame.payload.size() == 8
             ? std::optional(NumberAt(frame.payload, 0, 8))
             : std::nullopt;
}

std::optional<FrameSize> SizeOf(const Frame& frame) {
  if (frame.kind != FrameKind::kResize || frame.payload.size() != 4) {
    return std::nullopt;
  }
  const FrameSize size{static_cast<uint16_t>(NumberAt(frame.payload, 0, 2)),
                       static_cast<uint16_t>(NumberAt(frame.payload, 2, 2))};
  return size.rows > 0 && size.columns > 0 ? std::optional(size) : std::nullopt;
}

std::optional<int> SignalOf(const Frame& frame) {
  if (frame.kind != FrameKind::kSignal || frame.payload.size() != 1) {
    return std::nullopt;
  }
  const int signal = static_cast<uint8_t>(frame.payload[0]);
  return signal > 0 && signal <= kSignalMax ? std::optional(signal) : std::nullopt;
}

std::optional<FrameEnd> EndOf(const Frame& frame) {
  if (frame.kind != FrameKind::kEnded || frame.payload.size() < 2) {
    return std::nullopt;
  }
  return FrameEnd{static_cast<uint8_t>(frame.payload[0]),
                  static_cast<uint8_t>(frame.payload[1]),
                  frame.payload.substr(2)};
}

Result<std::optional<Frame>> FrameReader::Next() {
  if (pending() < kFrameHead) {
    data_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }
  const auto kind = static_cast<uint8_t>(data_[at_]);
  const uint64_t size = NumberAt(data_, at_ + 1, 4);
  if (!IsKind(kind) || size > kFramePayloadMax) {
    return Fail(ErrorCode::kInvalidArgument, "these are no frames of a command");
  }
  if (pending() < kFrameHead + size) {
    data_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }
  Frame frame{static_cast<FrameKind>(kind), data_.substr(at_ + kFrameHead, size)};
  at_ += kFrameHead + size;
  return frame;
}

}  // namespace tide
