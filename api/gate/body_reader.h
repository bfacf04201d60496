#pragma once
// The body of a request, taken from bytes as they come, by its length or in chunks, and never
// longer than it may be.

#include <cstddef>
#include <string>
#include <string_view>

#include "api/gate/head.h"

namespace tide::api {

class BodyReader {
 public:
  enum class State {
    kMore,  // it is not whole yet
    kWhole,
    kTooLong,  // it, or what stands between its chunks
    kBroken,   // these are no chunks
  };

  BodyReader(const Head& head, size_t max);

  // Takes what belongs to the body. Returns how many bytes that were.
  size_t Take(std::string_view bytes);
  [[nodiscard]] State state() const { return state_; }
  // From now on the body may be so long.
  void Limit(size_t max);
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] std::string TakeBody() { return std::move(body_); }

 private:
  // Part of a chunked body that the next byte belongs to.
  enum class Part {
    kSize,
    kExtension,
    kSizeEnd,  // the \n behind it
    kData,
    kDataReturn,
    kDataEnd,
    kTrailer,      // the first byte of a line behind the last chunk
    kTrailerLine,  // its other bytes
    kTrailerEnd,
    kEnd,
  };
  size_t TakeData(std::string_view bytes);
  void TakeMark(char byte);
  void TakeSizeDigit(char byte);
  void GoOn(char byte, Part at_return, Part otherwise);
  void Expect(char byte, char wanted, Part next);

  bool chunked_;
  size_t max_;
  size_t left_;             // bytes of the body, or of this chunk
  size_t between_ = 0;      // bytes around the data of chunks
  bool has_digit_ = false;  // of this chunk's size
  Part part_ = Part::kSize;
  State state_ = State::kMore;
  std::string body_;
};

}  // namespace tide::api
