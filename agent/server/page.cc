#include "agent/server/page.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr uint32_t kMagic = 0x45444954;  // "TIDE"
constexpr uint32_t kVersion = 1;

// Offsets of docs/rank-protocol.md.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 4;
constexpr size_t kSeqAt = 8;
constexpr size_t kOrderAt = 12;
constexpr size_t kAtStepAt = 16;
constexpr size_t kDeadlineAt = 24;
constexpr size_t kStateAt = 32;
constexpr size_t kStepAt = 64;
constexpr size_t kHeartbeatAt = 72;
constexpr size_t kPhaseAt = 80;
constexpr size_t kStagedStepAt = 88;
constexpr size_t kSavedStepAt = 96;
constexpr size_t kAckSeqAt = 104;
constexpr size_t kTotalStepsAt = 128;
constexpr size_t kLossAt = 136;
constexpr size_t kStepNsAt = 144;
constexpr size_t kFailedSavesAt = 152;
constexpr size_t kSaveErrnoAt = 156;
constexpr size_t kLossStepAt = 160;
constexpr size_t kBadStepAt = 168;
constexpr size_t kBadKindAt = 176;
constexpr size_t kGoodStepAt = 184;
constexpr size_t kComputeNsAt = 192;
constexpr uint32_t kBadInfinite = 2;
constexpr uint32_t kErrnoMax = 4095;

constexpr int64_t kStepMax = int64_t{1} << 53U;  // and of the duration of a step, ns

template <typename T>
std::atomic_ref<T> Word(char* page, size_t offset) {
  // The mapping is page-aligned and the offsets are multiples of their size.
  return std::atomic_ref<T>(*reinterpret_cast<T*>(page + offset));
}

// The job writes what it likes: it shall not make sums overflow.
int64_t ReadStep(char* page, size_t offset) {
  return std::clamp<int64_t>(Word<int64_t>(page, offset), -1, kStepMax);
}

Result<GuardedPage> MapPage(const std::string& path, uint32_t uid, uint32_t gid) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return FailErrno("cannot open page " + path, errno);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return FailErrno("cannot stat page " + path, errno);
  }
  const bool whole = info.st_size == static_cast<off_t>(GuardedPage::kBytes);
  if (!whole && (::ftruncate(fd.get(), GuardedPage::kBytes) != 0 ||
                 (::geteuid() == 0 && ::fchown(fd.get(), uid, gid) != 0))) {
    return FailErrno("cannot prepare page " + path, errno);
  }
  // A hole is filled when it is first touched, and a full tmpfs would say so by SIGBUS.
  if (const int error = ::posix_fallocate(fd.get(), 0, GuardedPage::kBytes); error != 0) {
    return FailErrno("cannot make room for page " + path, error);
  }
  auto mapped = GuardedPage::Map(fd.get());
  if (!mapped) {
    return Fail(mapped.error().code, "cannot map page " + path + ": " + mapped.error().message);
  }
  char* page = mapped->data();
  // The magic is written last: a page without it was left half made by an agent that was killed.
  if (Word<uint32_t>(page, kMagicAt) != kMagic) {
    Word<int64_t>(page, kStepAt) = -1;
    Word<int64_t>(page, kStagedStepAt) = -1;
    Word<int64_t>(page, kSavedStepAt) = -1;
    Word<int64_t>(page, kTotalStepsAt) = -1;
    Word<int64_t>(page, kAtStepAt) = INT64_MAX;
    Word<uint32_t>(page, kVersionAt) = kVersion;
    Word<uint32_t>(page, kMagicAt) = kMagic;
  }
  return mapped;
}

}  // namespace

namespace {

// What the rank's saver locks while it writes: the folder is not the rank's to make files in.
Status MakeSaverLock(const std::string& path, uint32_t uid, uint32_t gid) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid() || (::geteuid() == 0 && ::fchown(fd.get(), uid, gid) != 0)) {
    return FailErrno("cannot make " + path, errno);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TaskPages>> TaskPages::Open(const std::string& folder,
                                                   uint32_t ranks,
                                                   uint32_t uid,
                                                   uint32_t gid) {
  TIDE_TRY(MakeDirs(folder, 0711));
  std::unique_ptr<TaskPages> pages(new TaskPages());  // private constructor
  std::vector<PageOrders::Found> found;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    TIDE_ASSIGN(GuardedPage mapped, MapPage(folder + "/page-" + std::to_string(rank), uid, gid));
    TIDE_TRY(MakeSaverLock(folder + "/saver-" + std::to_string(rank) + ".lock", uid, gid));
    char* page = pages->pages_.emplace_back(std::move(mapped)).data();
    found.push_back({.state = static_cast<PageState>(Word<uint32_t>(page, kStateAt).load()),
                     .at_step = Word<int64_t>(page, kAtStepAt),
                     .order = static_cast<PageOrder>(Word<uint32_t>(page, kOrderAt).load())});
  }
  const MutexLock lock(pages->mutex_);
  pages->orders_.Adopt(found, MonotonicNanos());
  return pages;
}

RankView TaskPages::Read(size_t rank) const {
  char* page = pages_[rank].data();
  RankView view;
  view.step = ReadStep(page, kStepAt);
  view.phase = static_cast<RankPhase>(Word<uint32_t>(page, kPhaseAt).load());
  view.saved_step = ReadStep(page, kSavedStepAt);
  view.total_steps = ReadStep(page, kTotalStepsAt);
  view.loss = Word<double>(page, kLossAt);
  view.loss_step = std::max<int64_t>(0, ReadStep(page, kLossStepAt));
  view.bad_step = std::max<int64_t>(0, ReadStep(page, kBadStepAt));
  view.good_step = std::max<int64_t>(0, ReadStep(page, kGoodStepAt));
  view.bad_infinite = Word<uint32_t>(page, kBadKindAt) == kBadInfinite;
  view.step_ns = std::clamp<int64_t>(Word<int64_t>(page, kStepNsAt), 0, kStepMax);
  view.compute_ns = std::clamp<int64_t>(Word<int64_t>(page, kComputeNsAt), 0, kStepMax);
  view.acked = Word<uint32_t>(page, kAckSeqAt) == Word<uint32_t>(page, kSeqAt);
  view.failed_saves = Word<uint32_t>(page, kFailedSavesAt);
  view.save_errno =
      static_cast<int32_t>(std::min(Word<uint32_t>(page, kSaveErrnoAt).load(), kErrnoMax));
  view.ticked_ns = std::max<int64_t>(0, Word<int64_t>(page, kHeartbeatAt));
  return pages_[rank].IsCut() ? RankView() : view;
}

std::optional<size_t> TaskPages::FindCut() const {
  const auto cut = std::ranges::find_if(pages_, &GuardedPage::IsCut);
  return cut == pages_.end() ? std::nullopt : std::optional<size_t>(cut - pages_.begin());
}

bool TaskPages::AnyAttached() const {
  for (size_t rank = 0; rank < pages_.size(); ++rank) {
    if (Read(rank).phase != RankPhase::kUnattached) {
      return true;
    }
  }
  return false;
}

std::vector<RankView> TaskPages::ReadAll() const {
  std::vector<RankView> views;
  for (size_t rank = 0; rank < pages_.size(); ++rank) {
    views.push_back(Read(rank));
  }
  return views;
}

void TaskPages::Write(const PageStores& stores) const {
  for (const GuardedPage& mapped : pages_) {
    char* page = mapped.data();
    for (const PageStore& store : stores) {
      const auto word = static_cast<uint32_t>(store.value);
      switch (store.word) {
        case PageWord::kSeq:
          Word<uint32_t>(page, kSeqAt) += word;
          break;
        case PageWord::kOrder:
          Word<uint32_t>(page, kOrderAt) = word;
          break;
        case PageWord::kAtStep:
          Word<int64_t>(page, kAtStepAt) = store.value;
          break;
        case PageWord::kDeadline:
          Word<int64_t>(page, kDeadlineAt) = store.value;
          break;
        case PageWord::kState:
          Word<uint32_t>(page, kStateAt) = word;
          break;
      }
    }
  }
}

AgreeReply TaskPages::Hold(const AgreeRound& round, int64_t deadline) {
  const MutexLock lock(mutex_);
  auto stores = orders_.Begin(round, deadline, MonotonicNanos());
  while (stores) {
    Write(*stores);
    stores = orders_.Look(ReadAll(), MonotonicNanos());
  }
  return orders_.reply();
}

void TaskPages::Tidy(int64_t silence_ns) {
  const MutexLock lock(mutex_);
  Write(orders_.OnTime(ReadAll(), MonotonicNanos(), silence_ns));
}

int64_t TaskPages::committed_step() const {
  const MutexLock lock(mutex_);
  return orders_.committed_step();
}

bool TaskPages::armed_or_committed() const {
  const MutexLock lock(mutex_);
  return orders_.state() != PageState::kIdle;
}

void TaskPages::SetRanksGone(uint32_t count) {
  const MutexLock lock(mutex_);
  orders_.SetRanksGone(count);
}

}  // namespace tide::agent
