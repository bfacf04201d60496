#pragma once
// Why a job waits: codes of a closed list with the numbers behind them. Words are made of them by
// policy/reasons.h, where somebody asks.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

// Ranked: what is nearest to a start comes last. docs/guide/reasons.md lists them.
enum class ReasonCode : uint8_t {
  kHeldUser,
  kHeldDependency,  // other: the first job that it waits for; count: how many
  kBackoff,
  kPreemptYielded,     // other: the job that it gave its nodes to
  kPreemptInProgress,  // other: the first job that is leaving; count: nodes kept
  kQuotaProject,       // quota: the row and what is used of it
  kQuotaUser,          // the same
  kGroupUnknown,
  kSizeNever,      // count: the most nodes that it could ever have
  kCrossZoneBusy,  // other: the job that crosses; count: most nodes free in one zone
  // count: most nodes free in one zone, or, across, in all; fits_across: several hold it;
  // open_priority: the class in which it would get them
  kZoneCapacity,
  // lacking; count: how much is free in the group; largest: most on one node; startable: the most
  // with which the job would start now
  kFragmented,
  // other: the job that is safe longest from those like this one that did not wait yet when it
  // started; until: when it is not any more
  kPreemptProtected,
  // other: of the jobs of its class that have run their slice the one that the least is needed for;
  // count: how much waiting must have slowed a job down for that, in thousandths, whose owner holds
  // less than the other's
  kTurn,
  kNodesUnhealthy,  // count: nodes out of service
  // count: nodes kept free, all that it needs; until: it would start if it ended by then
  kMaintenance,
  kOrderAhead,  // other: the first; count: how many
};

// A quota row that has too little left for a job. In thousandths of nodes where not said.
struct QuotaShortage {
  std::string name;                      // of the project or the user
  std::string group;                     // "" = any
  std::optional<int32_t> priority;       // nothing = any class
  int64_t used = 0;                      // by others than the job
  int64_t limit = 0;                     // with what may be borrowed
  int64_t wanted = 0;                    // by the job
  std::optional<int32_t> open_priority;  // the nearest class with enough quota left
  uint32_t nodes_left = 0;               // whole nodes with which every row would do
  Instant until;                         // when the row ends; not set = never
  bool operator==(const QuotaShortage&) const = default;
};

// Resources of which no node may have enough.
enum class Lacking : uint8_t {
  kGpus,
  kCpus,    // beside the GPUs that it wants
  kMemory,  // beside its GPUs and CPUs; in tenths of a GiB
};

struct Reason {
  ReasonCode code = ReasonCode::kZoneCapacity;
  JobId other = {};
  uint32_t count = 0;
  uint32_t largest = 0;
  uint32_t wanted = 0;
  uint32_t startable = 0;  // 0 = none was found
  Lacking lacking = Lacking::kGpus;
  bool beside = false;  // the job's quota is short as well: no change of this alone would start it
  bool across = false;
  bool joined = false;  // across zones that a cluster file joins
  bool fits_across = false;
  std::optional<int32_t> open_priority = {};
  Instant until = {};
  std::shared_ptr<const QuotaShortage> quota = {};  // shared: a reason stays small

  bool operator==(const Reason& other_reason) const {
    const bool same_quota =
        quota && other_reason.quota ? *quota == *other_reason.quota : quota == other_reason.quota;
    return same_quota && code == other_reason.code && other == other_reason.other &&
           count == other_reason.count && largest == other_reason.largest &&
           wanted == other_reason.wanted && startable == other_reason.startable &&
           lacking == other_reason.lacking && beside == other_reason.beside &&
           across == other_reason.across && joined == other_reason.joined &&
           fits_across == other_reason.fits_across && open_priority == other_reason.open_priority &&
           until == other_reason.until;
  }
};

// Shared and never changed: thousands of jobs wait for the same reasons.
class ReasonList {
 public:
  ReasonList() = default;
  ReasonList(std::vector<Reason> reasons)  // NOLINT(google-explicit-constructor): a list as it is
      : reasons_(std::make_shared<const std::vector<Reason>>(std::move(reasons))) {}

  [[nodiscard]] auto begin() const { return All().begin(); }
  [[nodiscard]] auto end() const { return All().end(); }
  [[nodiscard]] bool empty() const { return All().empty(); }
  [[nodiscard]] const Reason& front() const { return All().front(); }
  [[nodiscard]] const Reason& back() const { return All().back(); }
  bool operator==(const ReasonList& other) const {
    return reasons_ == other.reasons_ || All() == other.All();
  }

 private:
  [[nodiscard]] const std::vector<Reason>& All() const {
    static const std::vector<Reason> kNone;
    return reasons_ ? *reasons_ : kNone;
  }

  std::shared_ptr<const std::vector<Reason>> reasons_;
};

struct Explanation {
  JobId job;
  ReasonList reasons;
  bool operator==(const Explanation&) const = default;
};

}  // namespace tide
