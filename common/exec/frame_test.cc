#include "common/exec/frame.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/prng.h"

namespace tide {
namespace {

std::vector<Frame> ReadAll(FrameReader& reader) {
  std::vector<Frame> frames;
  while (true) {
    const auto frame = reader.Next();
    REQUIRE(frame);
    if (!*frame) {
      return frames;
    }
    frames.push_back(**frame);
  }
}

TEST_CASE("frames come out as they went in, however the stream is cut") {
  std::string stream;
  AppendFrame(stream, FrameKind::kOut, "hello");
  AppendFrame(stream, FrameKind::kAlive);
  AppendResize(stream, {50, 132});
  AppendSignal(stream, 2);
  AppendTaken(stream, 0x0123456789abcdef);
  AppendEnd(stream, {7, 0, "words"});
  Prng prng(1);
  for (int round = 0; round < 200; ++round) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = 1 + prng.Below(9);
      reader.Append(std::string_view(stream).substr(at, size));
      at += size;
      for (Frame& frame : ReadAll(reader)) {
        frames.push_back(std::move(frame));
      }
    }
    REQUIRE(frames.size() == 6);
    CHECK(frames[0] == Frame{FrameKind::kOut, "hello"});
    CHECK(frames[1] == Frame{FrameKind::kAlive, ""});
    CHECK(SizeOf(frames[2]) == FrameSize{50, 132});
    CHECK(SignalOf(frames[3]) == 2);
    CHECK(TakenOf(frames[4]) == 0x0123456789abcdef);
    CHECK(EndOf(frames[5]) == FrameEnd{7, 0, "words"});
    CHECK(reader.pending() == 0);
  }
}

TEST_CASE("a long payload becomes several frames") {
  std::string stream;
  const std::string data(3 * kFramePayloadMax + 1, 'x');
  AppendFrame(stream, FrameKind::kOut, data);
  FrameReader reader;
  reader.Append(stream);
  std::string joined;
  for (const Frame& frame : ReadAll(reader)) {
    CHECK(frame.payload.size() <= kFramePayloadMax);
    joined += frame.payload;
  }
  CHECK(joined == data);
}

TEST_CASE("what is no frame is an error, not memory") {
  for (const std::string& bad : {std::string("\x07\0\0\0\0", 5),
                                 std::string("\0\0\0\0\0", 5),
                                 std::string("\x01\xff\xff\xff\xff", 5),
                                 std::string("\x01\0\x01\0\x01", 5)}) {
    FrameReader reader;
    reader.Append(bad);
    CHECK_FALSE(reader.Next());
  }
}

TEST_CASE("payloads of a wrong form mean nothing") {
  CHECK_FALSE(SizeOf({FrameKind::kResize, "abc"}));
  CHECK_FALSE(SizeOf({FrameKind::kResize, std::string(4, '\0')}));
  CHECK_FALSE(SizeOf({FrameKind::kSignal, "abcd"}));
  CHECK_FALSE(SignalOf({FrameKind::kSignal, ""}));
  CHECK_FALSE(SignalOf({FrameKind::kSignal, std::string(1, '\0')}));
  CHECK_FALSE(SignalOf({FrameKind::kSignal, "\x7f"}));
  CHECK_FALSE(TakenOf({FrameKind::kTaken, "1234567"}));
  CHECK_FALSE(EndOf({FrameKind::kEnded, "x"}));
}

}  // namespace
}  // namespace tide
