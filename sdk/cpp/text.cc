#include "sdk/cpp/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace tide::cpp {

void Warn(const std::string& text) {
  std::string line = "tide: " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

std::string NumberText(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

}  // namespace tide::cpp
