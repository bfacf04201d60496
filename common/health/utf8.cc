// Text from the kernel made fit for JSON and for protobuf strings.

#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the character at the start of `text`, 0 when it is not valid UTF-8 (overlong forms and
// surrogates are not).
size_t CharacterSize(std::string_view text) {
  const unsigned char lead = ByteAt(text, 0);
  if (lead < 0x80) {
    return 1;
  }
  const size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                      : (lead & 0xF0U) == 0xE0       ? 3
                      : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                     : 0;
  if (size == 0 || text.size() < size) {
    return 0;
  }
  for (size_t i = 1; i < size; ++i) {
    if ((ByteAt(text, i) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  const unsigned char second = ByteAt(text, 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
  return overlong || outside ? 0 : size;
}

}  // namespace

std::string PrintableUtf8(std::string_view text, size_t max_bytes) {
  std::string clean;
  clean.reserve(text.size() < max_bytes ? text.size() : max_bytes);
  while (!text.empty()) {
    size_t size = CharacterSize(text);
    const bool valid = size > 0;
    size = valid ? size : 1;
    if (clean.size() + size > max_bytes) {
      break;
    }
    if (!valid) {
      clean.push_back('?');
    } else if (size == 1 && (ByteAt(text, 0) < 0x20 || ByteAt(text, 0) == 0x7F)) {
      clean.push_back(' ');
    } else {
      clean.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
  return clean;
}

}  // namespace tide::health
