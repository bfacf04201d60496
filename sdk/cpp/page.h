#pragma once
// The 4 KiB page that one rank shares with its agent: docs/rank-protocol.md section 1. Every field
// has one writer, so the two processes need no lock; loads and stores are sequentially consistent.
// The training thread of the rank uses it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::cpp {

inline constexpr size_t kPageBytes = 4096;
inline constexpr uint32_t kPageMagic = 0x45444954;
inline constexpr uint32_t kPageVersion = 1;

enum PageOrder : uint32_t {
  kOrderNone = 0,
  kOrderSave = 1,
  kOrderSuspend = 2,
  kOrderStop = 3
};
enum PageState : uint32_t {
  kStateIdle = 0,
  kStateArmed = 1,
  kStateCommitted = 2
};
enum PagePhase : uint32_t {
  kPhaseDetached = 0,
  kPhaseTraining = 1,
  kPhaseWaiting = 2,
  kPhaseSaving = 3,
  kPhaseSaved = 4,
  kPhaseEvaluating = 5,
  kPhaseDone = 6,
};

struct Page {
  // Written by the agent.
  alignas(64) std::atomic<uint32_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> seq;
  std::atomic<uint32_t> order;
  std::atomic<int64_t> at_step;
  std::atomic<int64_t> deadline;
  std::atomic<uint32_t> state;
  // Written by the rank.
  alignas(64) std::atomic<int64_t> step;
  std::atomic<int64_t> heartbeat;
  std::atomic<uint32_t> phase;
  std::atomic<uint32_t> pid;
  std::atomic<int64_t> staged_step;
  std::atomic<int64_t> saved_step;
  std::atomic<uint32_t> ack_seq;
  std::atomic<uint32_t> refused_seq;
  alignas(64) std::atomic<int64_t> total_steps;
  std::atomic<double> loss;
  std::atomic<int64_t> step_ns;
  std::atomic<uint32_t> failed_saves;
  std::atomic<uint32_t> save_errno;
  std::atomic<int64_t> loss_step;
  std::atomic<int64_t> bad_step;
  std::atomic<uint32_t> bad_kind;
  std::atomic<int64_t> good_step;
  std::atomic<int64_t> compute_ns;
};
enum BadKind : uint32_t {
  kBadNan = 1,
  kBadInfinite = 2
};
static_assert(offsetof(Page, state) == 32 && offsetof(Page, step) == 64);
static_assert(offsetof(Page, phase) == 80 && offsetof(Page, saved_step) == 96);
static_assert(offsetof(Page, refused_seq) == 108 && offsetof(Page, total_steps) == 128);
static_assert(offsetof(Page, step_ns) == 144 && offsetof(Page, save_errno) == 156 &&
              offsetof(Page, bad_step) == 168 && offsetof(Page, good_step) == 184 &&
              sizeof(Page) <= kPageBytes);
static_assert(std::atomic<double>::is_always_lock_free);

// What the agent asks for. deadline: Unix ns, 0 = none; at_step: fires at the first tick with
// step >= at_step.
struct PageOrders {
  uint32_t seq = 0;
  uint32_t order = kOrderNone;
  int64_t at_step = 0;
  uint32_t state = kStateIdle;
  int64_t deadline = 0;
};

// A consistent order. The agent stores `seq` last, so it is loaded first: fields newer than their
// seq are harmless, fields older than it could fire a new order early.
[[nodiscard]] PageOrders ReadOrders(const Page& page);

class MappedPage {
 public:
  // The page that the agent made. Errors: kSystem where it is absent; kNewerSchema for another
  // version.
  [[nodiscard]] static Result<MappedPage> Map(const std::string& path);
  // A private page with no agent behind it, for runs outside the platform.
  [[nodiscard]] static Result<MappedPage> Local();
  MappedPage(MappedPage&& other) noexcept;
  MappedPage& operator=(MappedPage&&) = delete;
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;
  ~MappedPage();

  [[nodiscard]] Page& page() const { return *page_; }

 private:
  explicit MappedPage(Page* page) : page_(page) {}
  Page* page_ = nullptr;
};

}  // namespace tide::cpp
