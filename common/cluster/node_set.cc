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

namespace {

constexpr size_t kNumberDigitsMax = 18;

// A name around its last number: a-l07-n, 03, "".
struct NumberedName {
  std::string_view before;
  std::string_view number;  // "" = it has none, or one that is too long to count with
  std::string_view after;
};

NumberedName SplitName(std::string_view name) {
  const size_t last = name.find_last_of("0123456789");
  if (last == std::string_view::npos) {
    return {name, "", ""};
  }
  const size_t end = last + 1;
  size_t begin = last;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') {
    --begin;
  }
  if (end - begin > kNumberDigitsMax) {
    return {name, "", ""};
  }
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

bool Follows(const NumberedName& name, const NumberedName& last) {
  return !name.number.empty() && !last.number.empty() && name.before == last.before &&
         name.after == last.after && name.number.size() == last.number.size() &&
         std::stoull(std::string(name.number)) == std::stoull(std::string(last.number)) + 1;
}

}  // namespace

std::vector<std::string> ShortenNodes(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (size_t first = 0; first < names.size();) {
    const NumberedName from = SplitName(names[first]);
    NumberedName to = from;
    size_t next = first + 1;
    for (; next < names.size() && Follows(SplitName(names[next]), to); ++next) {
      to = SplitName(names[next]);
    }
    words.push_back(next == first + 1
                        ? names[first]
                        : std::string(from.before) + "[" + std::string(from.number) + "-" +
                              std::string(to.number) + "]" + std::string(from.after));
    first = next;
  }
  return words;
}

}  // namespace tide
