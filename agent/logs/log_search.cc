#include "agent/logs/log_search.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tide::agent {

void LogSearch::SkipTo(uint64_t offset) {
  buffer_.clear();
  used_ = 0;
  begin_ = offset;
}

Result<bool> LogSearch::Fill(uint64_t end) {
  buffer_.erase(0, used_);
  begin_ += std::exchange(used_, 0);
  bool any = false;
  while (buffer_.size() < kBlockBytes && begin_ + buffer_.size() < end) {
    const size_t had = buffer_.size();
    const uint64_t from = begin_ + had;
    buffer_.resize(had + std::min<uint64_t>(kBlockBytes - had, end - from));
    const auto read = log_.Read(from, std::span(buffer_).subspan(had));
    buffer_.resize(had + read.value_or(0));
    TIDE_TRY(read);
    if (*read == 0) {
      break;
    }
    any = true;
  }
  return any;
}

Result<bool> LogSearch::Step(uint64_t end,
                             bool to_the_end,
                             size_t most,
                             std::vector<FoundLine>& found) {
  TIDE_ASSIGN(const bool any, Fill(end));
  const size_t last = buffer_.rfind('\n');
  size_t whole = last == std::string::npos ? 0 : last + 1;
  const bool stuck = whole == 0 && buffer_.size() >= kBlockBytes;
  if (stuck || (to_the_end && begin_ + buffer_.size() >= end)) {
    whole = buffer_.size();
  }
  const std::string_view text = std::string_view(buffer_).substr(0, whole);
  for (size_t count = 0; used_ < whole && count < most; ++count) {
    const LineMatcher::Line line = matcher_.Find(text, used_);
    if (!line.found()) {
      used_ = whole;
      break;
    }
    TIDE_TRY(Add(line.begin, line.end, found));
    used_ = std::min(line.end + 1, whole);
  }
  return any || used_ > 0;
}

Status LogSearch::Add(size_t begin, size_t end, std::vector<FoundLine>& found) {
  FoundLine line;
  line.offset = begin_ + begin;
  line.next = begin_ + std::min(end + 1, buffer_.size());
  line.text = buffer_.substr(begin, std::min(end - begin, kMaxFoundLine));
  TIDE_ASSIGN(const std::vector<LogRecord> records, log_.Records(line.offset, line.offset + 1, 1));
  if (!records.empty()) {
    line.at = records.front().at;
    line.stream = records.front().stream;
  }
  found.push_back(std::move(line));
  return {};
}

}  // namespace tide::agent
