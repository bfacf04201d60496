#include "api/http/log_lines.h"

#include <algorithm>
#include <utility>

namespace tide::api {

void LineSplitter::Add(const LogPiece& piece) {
  const std::string_view data = piece.data;
  size_t at = 0;
  for (const LogMark& mark : piece.marks) {
    const size_t begin = std::clamp(mark.begin, at, data.size());
    AddPart(data.substr(at, begin - at), last_at_);
    at = begin;
    last_at_ = mark.at != 0 ? mark.at : last_at_;
  }
  AddPart(data.substr(at), last_at_);
}

void LineSplitter::AddPart(std::string_view data, int64_t at) {
  while (!data.empty()) {
    if (!has_open_) {
      open_ = {at, {}};
      has_open_ = true;
    }
    const size_t newline = data.find('\n');
    const size_t take = std::min(newline, data.size());
    const size_t room = kLongestLine - open_.text.size();
    open_.text.append(data.substr(0, std::min(take, room)));
    if (take > room) {
      data.remove_prefix(room);
      End();
    } else if (newline != std::string_view::npos) {
      data.remove_prefix(newline + 1);
      End();
    } else {
      return;
    }
  }
}

void LineSplitter::End() {
  if (std::exchange(has_open_, false)) {
    lines_.push_back(std::exchange(open_, {}));
  }
}

LogLine LineSplitter::Take() {
  LogLine line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

}  // namespace tide::api
