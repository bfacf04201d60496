#pragma once
// "Did you mean …?" for a word that is none of the known ones.

#include <string>
#include <string_view>
#include <vector>

namespace tide {

// The known word nearest to `word`, or "" when none is near: one that begins with it, else at most
// a third of the letters differ, else `word` begins with one.
[[nodiscard]] std::string NearestWord(std::string_view word,
                                      const std::vector<std::string_view>& known);

}  // namespace tide
