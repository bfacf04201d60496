#pragma once
// The shared pages of one task, one per rank (docs/rank-protocol.md section 1): the agent's side.
//
// Threads: any. Fields are single words with one writer each; the order matters and is sequentially
// consistent where the protocol says so.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agreement.h"
#include "agent/core/page_orders.h"
#include "agent/core/rank_view.h"
#include "agent/server/guarded_page.h"
#include "common/base/mutex.h"
#include "common/base/result.h"

namespace tide::agent {

class TaskPages {
 public:
  // Makes `folder` with a zeroed page and a saver's lock for each rank, owned by uid:gid. Existing
  // pages are kept: an agent that comes back finds the ranks where they are.
  [[nodiscard]] static Result<std::unique_ptr<TaskPages>> Open(const std::string& folder,
                                                               uint32_t ranks,
                                                               uint32_t uid,
                                                               uint32_t gid);
  ~TaskPages() = default;
  TaskPages(const TaskPages&) = delete;
  TaskPages& operator=(const TaskPages&) = delete;

  // Of a rank whose page is cut: as if it had never attached.
  [[nodiscard]] RankView Read(size_t rank) const;
  // The first rank found so far to have cut its page's file short, which ends its task.
  [[nodiscard]] std::optional<size_t> FindCut() const;
  [[nodiscard]] size_t size() const { return pages_.size(); }
  [[nodiscard]] bool AnyAttached() const;

  // One round of the agreement on these pages. One older than the newest is refused: it changes
  // nothing and counts as not answered.
  [[nodiscard]] AgreeReply Hold(const AgreeRound& round, int64_t deadline);
  // Armed for longer than `silence_ns` without a commit: the coordinator is gone; training goes on.
  // A save that is over leaves the pages.
  void Tidy(int64_t silence_ns);

  [[nodiscard]] int64_t committed_step() const;
  [[nodiscard]] bool armed_or_committed() const;
  void SetRanksGone(uint32_t count);

 private:
  TaskPages() = default;
  // On every page.
  void Write(const PageStores& stores) const;
  [[nodiscard]] std::vector<RankView> ReadAll() const;

  std::vector<GuardedPage> pages_;
  mutable Mutex mutex_;  // one round at a time
  PageOrders orders_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
