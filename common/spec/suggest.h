#pragma once
// "Did you mean …?" for a word that is none of the known ones.

#include <string>
#include <string_view>
#include <vector>

namespace tide {

// The known word nearest to `word`, or "" when none is near: at most a third of the letters
// differ, or one begins with the other.
[[nodiscard]] std::string NearestWord(std::string_view word,
                                      const std::vector<std::string_view>& known);

}  // namespace tide
