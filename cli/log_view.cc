#include "cli/log_view.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tide::cli {
namespace {

// To the line's beginning, and clear it.
constexpr std::string_view kRewind = "\r\x1b[K";
constexpr std::array<std::string_view, 6> kRankColors = {"36", "33", "32", "35", "34", "31"};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string Prefix(const std::string& rank, bool color) {
  std::string text = "rank " + rank + " | ";
  if (!color) {
    return text;
  }
  const auto code = kRankColors[static_cast<size_t>(rank.back() - '0') % kRankColors.size()];
  // What a rank left switched on must not colour the others.
  return "\x1b[0;" + std::string(code) + "m" + text + "\x1b[0m";
}

}  // namespace

std::string_view FoldReturns(std::string_view line) {
  while (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const size_t last = line.rfind('\r');
  return last == std::string_view::npos ? line : line.substr(last + 1);
}

std::string ByteView::Show(std::string_view data) {
  if (!fold_) {
    return std::string(data);
  }
  std::string out;
  while (!data.empty()) {
    const size_t newline = data.find('\n');
    const std::string_view part = data.substr(0, newline);
    const std::string_view shown = FoldReturns(part);
    // Written over if a return stands before what is shown now.
    const bool again =
        return_pending_ || part.find('\r') < part.size() - (part.ends_with('\r') ? 1 : 0);
    if (!shown.empty()) {
      out += line_shown_ && again ? kRewind : std::string_view();
      out += shown;
      return_pending_ = false;
    }
    return_pending_ = return_pending_ || part.ends_with('\r');
    line_shown_ = line_shown_ || !shown.empty();
    if (newline == std::string_view::npos) {
      break;
    }
    out += '\n';
    line_shown_ = false;
    return_pending_ = false;
    data.remove_prefix(newline + 1);
  }
  return out;
}

std::string LineView::Show(std::string_view data) {
  std::string out;
  rest_ += data;
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    out += ShowLine(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  return out;
}

std::string LineView::End() {
  const std::string line = std::exchange(rest_, {});
  return line.empty() ? "" : ShowLine(line);
}

void LineView::Restart() {
  rest_.clear();
  for (auto& [rank, place] : places_) {
    place.skip = place.lines;
  }
}

std::string LineView::Since() const {
  std::string oldest;
  for (const auto& [rank, place] : places_) {
    oldest = oldest.empty() ? place.at : std::min(oldest, place.at);
  }
  return oldest;
}

bool LineView::IsRepeat(const std::string& rank, std::string_view at) {
  Place& place = places_[rank];
  if (at == "-") {
    return false;
  }
  if (at < place.at) {
    return place.skip > 0;
  }
  if (at == place.at && place.skip > 0) {
    --place.skip;
    return true;
  }
  place.skip = 0;
  place.lines = at == place.at ? place.lines + 1 : 1;
  place.at = at;
  return false;
}

std::string LineView::ShowLine(std::string_view line) {
  std::string rank;
  if (look_.prefixed) {
    const size_t end = line.find("] ");
    if (!line.starts_with('[') || end == std::string_view::npos ||
        !IsNumber(line.substr(1, end - 1))) {
      return std::string(line) + "\n";  // the server's own word
    }
    rank = line.substr(1, end - 1);
    line.remove_prefix(end + 2);
  }
  std::string out = look_.prefixed ? Prefix(rank, look_.color) : "";
  const size_t space = line.find(' ');
  const std::string_view at = line.substr(0, space);
  const bool has_time = at == "-" || (at.size() >= 20 && at[10] == 'T' && at.ends_with('Z'));
  if (look_.stamped && space != std::string_view::npos && has_time) {
    if (IsRepeat(rank, at)) {
      return "";
    }
    line.remove_prefix(space + 1);
    if (look_.timestamps) {
      out.append(at).push_back(' ');
    }
  }
  out += look_.fold ? FoldReturns(line) : line;
  out += '\n';
  return out;
}

}  // namespace tide::cli
