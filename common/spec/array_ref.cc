#include "common/spec/array_ref.h"

#include <charconv>

namespace tide {
namespace {

bool ParseIndex(std::string_view text, uint32_t& out) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, out);
  return error == std::errc() && stop == end && out < kArrayCountMax;
}

}  // namespace

Result<ArrayRef> ParseArrayRef(std::string_view text) {
  const auto bad = Fail(ErrorCode::kInvalidArgument,
                        "\"" + std::string(text) +
                            "\" names no elements of an array; write j-12[], j-12[3] or j-12[3-7]");
  const size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) {
    return bad;
  }
  ArrayRef ref;
  const auto job = ParseJobName(text.substr(0, open));
  const std::string_view range = text.substr(open + 1, text.size() - open - 2);
  if (!job) {
    return bad;
  }
  ref.job = *job;
  if (range.empty()) {
    return ref;
  }
  const size_t dash = range.find('-');
  const std::string_view last = dash == std::string_view::npos ? range : range.substr(dash + 1);
  if (!ParseIndex(range.substr(0, dash), ref.first) || !ParseIndex(last, ref.last) ||
      ref.last < ref.first) {
    return bad;
  }
  return ref;
}

std::string FormatArrayRef(const ArrayRef& ref) {
  std::string text = FormatJobName(ref.job) + "[";
  if (!ref.all()) {
    text += std::to_string(ref.first);
    text += ref.last == ref.first ? "" : "-" + std::to_string(ref.last);
  }
  return text + "]";
}

}  // namespace tide
