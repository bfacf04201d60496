#include "common/spec/suggest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tide {
namespace {

constexpr size_t kLongestWord = 64;

// Levenshtein distance; Cost: O(|a| * |b|).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// "gpus" for "gpus_per_node": an abbreviation says more than a slip of the finger could.
std::string_view SpelledOut(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr size_t kTelling = 4;
  const auto found = std::find_if(
      known.begin(), known.end(), [&](std::string_view each) { return each.starts_with(word); });
  return word.size() < kTelling || found == known.end() ? std::string_view() : *found;
}

bool OneBeginsWithOther(std::string_view a, std::string_view b) {
  constexpr size_t kTelling = 3;  // shorter beginnings say nothing
  return std::min(a.size(), b.size()) >= kTelling && (a.starts_with(b) || b.starts_with(a));
}

}  // namespace

std::string NearestWord(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.empty() || word.size() > kLongestWord) {
    return "";
  }
  std::string_view best = SpelledOut(word, known);
  size_t best_distance = best.empty() ? kLongestWord : 0;
  for (const std::string_view each : known) {
    const size_t distance = EditDistance(word, each);
    if (distance <= std::max<size_t>(1, each.size() / 3) && distance < best_distance) {
      best = each;
      best_distance = distance;
    }
  }
  if (best.empty()) {
    const auto found = std::find_if(known.begin(), known.end(), [&](std::string_view each) {
      return OneBeginsWithOther(word, each);
    });
    best = found == known.end() ? std::string_view() : *found;
  }
  return std::string(best);
}

}  // namespace tide
