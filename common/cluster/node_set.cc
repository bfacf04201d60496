#include "common/cluster/node_set.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace tide {
namespace {

constexpr size_t kNameMax = 255;  // also bounds the work for a word of many brackets

std::unexpected<Error> NoSet(std::string_view word) {
  constexpr size_t kShown = 60;
  const std::string shown(word.substr(0, kShown));
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + shown + (word.size() > kShown ? "…" : "") +
                  "\" is no set of nodes; write n7, n[01-20] or n[1,3,8-9]");
}

std::unexpected<Error> TooMany(size_t most) {
  return Fail(ErrorCode::kInvalidArgument,
              "more than " + std::to_string(most) + " nodes; name fewer at once");
}

bool ReadNumber(std::string_view text, uint32_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}

std::string WithZeros(uint32_t number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width > text.size() ? width - text.size() : 0, '0') + text;
}

// "01-03,07" gives 01, 02, 03, 07.
Result<std::vector<std::string>> ExpandRanges(std::string_view word,
                                              std::string_view inside,
                                              size_t most) {
  std::vector<std::string> numbers;
  while (true) {
    const size_t comma = std::min(inside.find(','), inside.size());
    const std::string_view range = inside.substr(0, comma);
    const size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    uint32_t first = 0;
    uint32_t last = 0;
    if (low.size() > kNameMax || !ReadNumber(low, first) || !ReadNumber(high, last) ||
        last < first) {
      return NoSet(word);
    }
    if (last - first >= most || numbers.size() + (last - first) >= most) {
      return TooMany(most);
    }
    for (uint32_t i = first; i <= last; ++i) {
      numbers.push_back(WithZeros(i, low.size()));
    }
    if (comma == inside.size()) {
      return numbers;
    }
    inside.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> ExpandOne(std::string_view word, size_t most) {
  std::vector<std::string> names = {""};
  std::string_view rest = word;
  while (true) {
    const size_t open = std::min(rest.find('['), rest.size());
    const std::string_view plain = rest.substr(0, open);
    if (plain.contains(']') || names.front().size() + plain.size() > kNameMax) {
      return NoSet(word);
    }
    for (std::string& name : names) {
      name += plain;
    }
    if (open == rest.size()) {
      return names;
    }
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) {
      return NoSet(word);
    }
    TIDE_ASSIGN(const auto numbers,
                ExpandRanges(word, rest.substr(open + 1, close - open - 1), most));
    if (numbers.size() > most / names.size()) {
      return TooMany(most);
    }
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) {
        longer.push_back(name + number);
      }
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> ExpandNodes(const std::vector<std::string>& words, size_t most) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    TIDE_ASSIGN(auto nodes, ExpandOne(word, most));
    if (all.size() + nodes.size() > most) {
      return TooMany(most);
    }
    all.insert(
        all.end(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  }
  return all;
}

}  // namespace tide
