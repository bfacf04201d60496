#include "cli/node_set.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace tide::cli {
namespace {

constexpr size_t kNodesMax = 10'000;

std::unexpected<Error> NoSet(const std::string& word) {
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + word + "\" is no set of nodes; write n7, n[01-20] or n[1,3,8-9]");
}

bool ReadNumber(std::string_view text, uint32_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}

std::string WithZeros(uint32_t number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width > text.size() ? width - text.size() : 0, '0') + text;
}

// "01-03" gives 01, 02, 03; false if it is no range.
bool ExpandRange(std::string_view range, std::vector<std::string>& out) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  uint32_t first = 0;
  uint32_t last = 0;
  if (!ReadNumber(low, first) || !ReadNumber(high, last) || last < first ||
      last - first >= kNodesMax) {
    return false;
  }
  for (uint32_t i = first; i <= last; ++i) {
    out.push_back(WithZeros(i, low.size()));
  }
  return true;
}

Result<std::vector<std::string>> ExpandOne(const std::string& word) {
  const size_t open = word.find('[');
  if (open == std::string::npos) {
    return std::vector<std::string>{word};
  }
  const size_t close = word.find(']', open);
  if (close == std::string::npos) {
    return NoSet(word);
  }
  std::vector<std::string> numbers;
  std::string_view inside = std::string_view(word).substr(open + 1, close - open - 1);
  while (true) {
    const size_t comma = std::min(inside.find(','), inside.size());
    if (!ExpandRange(inside.substr(0, comma), numbers)) {
      return NoSet(word);
    }
    if (comma == inside.size()) {
      break;
    }
    inside.remove_prefix(comma + 1);
  }
  TIDE_ASSIGN(const auto rests, ExpandOne(word.substr(close + 1)));
  if (numbers.size() * rests.size() > kNodesMax) {
    return NoSet(word);
  }
  std::vector<std::string> out;
  for (const std::string& number : numbers) {
    for (const std::string& rest : rests) {
      out.push_back(word.substr(0, open) + number + rest);
    }
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> ExpandNodes(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    TIDE_ASSIGN(const auto nodes, ExpandOne(word));
    all.insert(all.end(), nodes.begin(), nodes.end());
    if (all.size() > kNodesMax) {
      return NoSet(word);
    }
  }
  return all;
}

}  // namespace tide::cli
