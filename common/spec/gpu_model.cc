#include "common/spec/gpu_model.h"

#include <algorithm>
#include <cctype>

namespace tide {
namespace {

bool IsInWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// Returns the next run of letters and digits and cuts it off; "" = there is no more.
std::string_view NextWord(std::string_view& text) {
  const auto begin = std::ranges::find_if(text, IsInWord);
  const auto end = std::find_if_not(begin, text.end(), IsInWord);
  const std::string_view word(begin, end);
  text = std::string_view(end, text.end());
  return word;
}

bool BeginsWithWords(std::string_view text, std::string_view wanted) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (std::string_view word = NextWord(wanted); !word.empty(); word = NextWord(wanted)) {
    if (!std::ranges::equal(NextWord(text), word, same)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsModel(std::string_view model, std::string_view wanted) {
  if (wanted.empty()) {
    return true;
  }
  do {
    if (BeginsWithWords(model, wanted)) {
      return true;
    }
  } while (!NextWord(model).empty());
  return false;
}

}  // namespace tide
