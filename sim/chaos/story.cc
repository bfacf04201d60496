#include "sim/chaos/story.h"

#include <cstdio>

namespace tide::chaos {

void Story::Mix(uint64_t value) {
  // FNV-1a over words, with a final stir so that high bits reach low ones.
  hash_ = (hash_ ^ value) * 0x100000001b3U;
  hash_ ^= hash_ >> 29U;
}

void Story::Note(Instant at, std::string_view what, Fields fields) {
  ++events_;
  if (!start_.is_set()) {
    start_ = at;
  }
  if (const auto it = counts_.find(what); it != counts_.end()) {
    ++it->second;
  } else {
    counts_.emplace(what, 1);
  }
  Mix(static_cast<uint64_t>(at.unix_nanos()));
  for (const char letter : what) {
    Mix(static_cast<unsigned char>(letter));
  }
  for (const auto& [name, value] : fields) {
    Mix(value);
  }
  if (keep_lines_ == 0) {
    return;
  }
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%10.4f  ", (at - start_).seconds());
  std::string line = stamp + std::string(what);
  for (const auto& [name, value] : fields) {
    line += std::string(" ") + name + "=" + std::to_string(static_cast<int64_t>(value));
  }
  lines_.push_back(std::move(line));
  if (lines_.size() > keep_lines_) {
    lines_.pop_front();
  }
}

}  // namespace tide::chaos
