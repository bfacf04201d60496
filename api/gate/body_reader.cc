#include "api/gate/body_reader.h"

#include <algorithm>
#include <charconv>

namespace tide::api {

BodyReader::BodyReader(const Head& head, size_t max)
    : chunked_(head.chunked), max_(max), left_(chunked_ ? 0 : head.content_length) {
  if (!chunked_ && left_ == 0) {
    state_ = State::kWhole;
  }
  Limit(max);
}

void BodyReader::Limit(size_t max) {
  max_ = max;
  const size_t known = body_.size() + left_;
  if (state_ != State::kBroken && (known > max_ || between_ > max_)) {
    state_ = State::kTooLong;
  }
}

size_t BodyReader::Take(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && state_ == State::kMore) {
    if (!chunked_ || part_ == Part::kData) {
      taken += TakeData(bytes.substr(taken));
    } else {
      TakeMark(bytes[taken]);
      ++taken;
    }
  }
  return taken;
}

size_t BodyReader::TakeData(std::string_view bytes) {
  const size_t count = std::min(bytes.size(), left_);
  body_.append(bytes.substr(0, count));
  left_ -= count;
  if (left_ == 0) {
    part_ = Part::kDataReturn;
    state_ = chunked_ ? State::kMore : State::kWhole;
  }
  return count;
}

void BodyReader::TakeMark(char byte) {
  if (++between_ > max_) {
    state_ = State::kTooLong;
    return;
  }
  switch (part_) {
    case Part::kSize:
      TakeSizeDigit(byte);
      break;
    case Part::kExtension:
      GoOn(byte, Part::kSizeEnd, Part::kExtension);
      break;
    case Part::kSizeEnd:
      has_digit_ = false;
      Expect(byte, '\n', left_ == 0 ? Part::kTrailer : Part::kData);
      break;
    case Part::kDataReturn:
      Expect(byte, '\r', Part::kDataEnd);
      break;
    case Part::kDataEnd:
      Expect(byte, '\n', Part::kSize);
      break;
    case Part::kTrailer:
      GoOn(byte, Part::kEnd, Part::kTrailerLine);
      break;
    case Part::kTrailerLine:
      GoOn(byte, Part::kTrailerEnd, Part::kTrailerLine);
      break;
    case Part::kTrailerEnd:
      Expect(byte, '\n', Part::kTrailer);
      break;
    case Part::kEnd:
      Expect(byte, '\n', Part::kEnd);
      state_ = state_ == State::kMore ? State::kWhole : state_;
      break;
    case Part::kData:
      break;
  }
}

void BodyReader::TakeSizeDigit(char byte) {
  unsigned digit = 0;
  if (std::from_chars(&byte, &byte + 1, digit, 16).ec == std::errc()) {
    has_digit_ = true;
    left_ = left_ * 16 + digit;
    Limit(max_);  // so that no size overflows
  } else if (!has_digit_) {
    state_ = State::kBroken;
  } else if (byte == ';' || byte == ' ' || byte == '\t') {
    part_ = Part::kExtension;
  } else {
    Expect(byte, '\r', Part::kSizeEnd);
  }
}

// A line feed alone ends a line to some programs and not to others.
void BodyReader::GoOn(char byte, Part at_return, Part otherwise) {
  part_ = byte == '\r' ? at_return : otherwise;
  if (byte == '\n') {
    state_ = State::kBroken;
  }
}

void BodyReader::Expect(char byte, char wanted, Part next) {
  part_ = next;
  if (byte != wanted) {
    state_ = State::kBroken;
  }
}

}  // namespace tide::api
