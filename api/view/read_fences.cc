#include "api/view/read_fences.h"

#include <algorithm>

namespace tide::api {

void ReadFences::Note(const std::string& user, uint64_t rev) {
  const std::scoped_lock lock(mutex_);
  uint64_t& noted = revs_[user];
  noted = std::max(noted, rev);
}

bool ReadFences::Await(const ViewStore& store,
                       const std::string& user,
                       std::chrono::milliseconds timeout) {
  uint64_t rev = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto noted = revs_.find(user);
    if (noted == revs_.end()) {
      return true;
    }
    rev = noted->second;
  }
  const bool shown = store.broken() || store.WaitForRev(rev, timeout) || store.broken();
  const std::scoped_lock lock(mutex_);
  if (const auto noted = revs_.find(user); noted != revs_.end() && noted->second <= rev) {
    revs_.erase(noted);
  }
  return shown;
}

}  // namespace tide::api
