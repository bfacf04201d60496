#pragma once
// One list-scheduling sweep over a scene: each waiting job, in order, is given the nodes that come
// free first. Nodes are not told apart: a zone is the set of the times at which its nodes come
// free.
//
// A gang keeps nodes idle from the moment they come free until it has them all. Those gaps are
// given to jobs behind it that can start in them, as the scheduler does (opportunistic starts).

#include <set>
#include <vector>

#include "common/base/sorted_blocks.h"
#include "scheduler/core/policy/estimate_scene.h"

namespace tide::estimate {

struct SweepStart {
  Instant at = Instant::Never();  // Never: not by kEstimateHorizon, or not at all
  NoEstimate none = NoEstimate::kNone;
  EstimateBasis basis;
};

class Sweep {
 public:
  // `scene` must outlive it. Cost: O((nodes' holders) log).
  Sweep(const Scene& scene, Outlook outlook);

  // By index of scene.waiters().
  //   Cost: O(waiters × (zones of the group + log)), each offer passed over being charged to the
  //   job that made it; gaps are searched kGapsLookedAt deep.
  [[nodiscard]] std::vector<SweepStart> Run();

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  // Who holds nodes in this sweep.
  struct Keeper {
    const Holder* holder = nullptr;  // nullptr: the sweep has started it
    uint32_t owner = 0;
    int32_t priority = 0;
    uint32_t user = 0;
    Instant shared;     // sweep-started: from then on others of its class may take turns
    Slowdown slowdown;  // sweep-started
    int64_t holds = 0;  // its owner; sweep-started
    Instant ends;
    Duration leave;
  };
  // Nodes that come free together. `at` is when the job that looks at it may have them; who may not
  // have them then moves it on to the next moment at which it could matter.
  struct Offer {
    Instant at;
    Instant base;  // the same for everybody; before `at` while a job looks for which it comes later
    uint32_t number = 0;  // ties: first made, first taken
    uint32_t nodes = 0;
    uint32_t keeper = kNobody;
    uint32_t parted = kNobody;  // the node that comes together again
    bool operator<(const Offer& other) const {
      return at != other.at ? at < other.at : number < other.number;
    }
  };
  using Offers = SortedBlocks<Offer>;
  // A node in parts; its offer is moved when a part is taken for longer.
  struct Parted {
    Offer offer;
    Instant ends;      // its last part
    bool open = true;  // nobody has taken the whole of it
  };
  // Room for a while. That of a parted node lasts until its last part ends; while its keeper runs
  // it is for those who may take a turn, as an offer is.
  struct Gap {
    Instant from;
    uint32_t number = 0;
    Instant until;
    uint32_t nodes = 1;
    int64_t room = 0;  // thousandths of each node
    uint32_t parted = kNobody;
    uint32_t keeper = kNobody;
    bool operator<(const Gap& other) const {
      return from != other.from ? from < other.from : number < other.number;
    }
  };
  using Gaps = SortedBlocks<Gap>;
  // A gap as one job has it.
  struct OpenGap {
    Instant at;
    Gap gap;
  };
  struct ZoneState {
    Offers offers;
    Gaps gaps;   // whole nodes
    Gaps rooms;  // of parted nodes
  };
  struct Found {
    Instant at = Instant::Never();
    enum class In : uint8_t {
      kOffers,
      kGaps,
      kRooms,
      kAcross,
    } in = In::kOffers;
    uint32_t zone = 0;
  };

  void AddZone(const Zone& from, ZoneState& to);
  void AddOffer(ZoneState& zone, Instant at, uint32_t nodes, uint32_t keeper, uint32_t parted);
  void AddGap(Gaps& to, Gap gap);
  uint32_t AddKeeper(const Waiter& waiter, Instant start);

  // --- who may have what, and when ---
  [[nodiscard]] Instant EndOf(uint32_t keeper) const;
  [[nodiscard]] bool MayHave(const Waiter& waiter, uint32_t keeper, Instant at) const;
  // While the holder runs. The same rule as when the time comes, with slowdowns as they will be
  // then, and owners that hold as much as now.
  [[nodiscard]] Right RightTo(const Waiter& waiter, const Keeper& keeper, Instant at) const;
  [[nodiscard]] bool MayTake(const Waiter& waiter, const Keeper& keeper, Instant at) const {
    return RightTo(waiter, keeper, at) != Right::kNone;
  }
  [[nodiscard]] Instant NextMoment(int32_t priority, const Keeper& keeper, Instant after) const;
  // When, after it was refused at `after`, it will have been slowed down far enough beyond the
  // keeper; Never = not before the end, or too often searched for in this sweep.
  [[nodiscard]] Instant TurnMoment(const Waiter& waiter, const Keeper& keeper, Instant after);
  // The first moment, from `from` on, at which it may have what the keeper holds.
  [[nodiscard]] Instant OpensAt(const Waiter& waiter, uint32_t keeper, Instant from);
  [[nodiscard]] Instant GoneAt(uint32_t keeper, Instant at) const;
  // The first offer from `place` on that the waiter may have.
  Offers::Place Admit(const Waiter& waiter, ZoneState& zone, Offers::Place place);
  // To a later moment. Where what followed it lies then, which may be the same offer.
  Offers::Place MoveOn(ZoneState& zone, Offers::Place place, Instant at, Instant base);
  // What was moved for the job at hand alone comes back.
  void MoveBack();

  // --- one job ---
  [[nodiscard]] Found Find(const Waiter& waiter);
  [[nodiscard]] Instant FindInOffers(const Waiter& waiter, ZoneState& zone);
  [[nodiscard]] static bool MayDo(const Gaps& gaps, uint32_t nodes);
  [[nodiscard]] Instant FindInGaps(const Waiter& waiter, ZoneState& zone, Instant before);
  // The first gaps as the waiter has them, by when it has them.
  //   before: gaps that begin later are of no use.
  [[nodiscard]] const std::vector<OpenGap>& OpenGaps(const Waiter& waiter,
                                                     Gaps& gaps,
                                                     int most,
                                                     Instant before = Instant::Never());
  [[nodiscard]] Instant FindInRooms(const Waiter& waiter, ZoneState& zone, Instant before);
  [[nodiscard]] Found FindAcross(const Waiter& waiter);
  // For each zone of the waiter the place of the first offer that it may have.
  [[nodiscard]] std::vector<Offers::Place> FirstPlaces(const Waiter& waiter);
  // Which of these zones has the earliest offer at its place; as many as there are: none has one.
  [[nodiscard]] size_t Earliest(const Waiter& waiter,
                                const std::vector<Offers::Place>& places) const;
  void TakeAcross(const Waiter& waiter, Instant start, EstimateBasis& basis);
  [[nodiscard]] Instant MayCrossFrom() const;
  void Start(const Waiter& waiter, const Found& found, EstimateBasis& basis);
  void TakeOffers(
      const Waiter& waiter, ZoneState& zone, uint32_t nodes, Instant start, EstimateBasis& basis);
  void TakePartOfOffer(const Waiter& waiter, ZoneState& zone, Instant start, EstimateBasis& basis);
  void TakeGaps(const Waiter& waiter, ZoneState& zone, Instant start, EstimateBasis& basis);
  void TakeRoom(const Waiter& waiter, ZoneState& zone, Instant start, EstimateBasis& basis);
  void Release(const Offer& offer, ZoneState& zone, Instant start);
  void Count(const Waiter& waiter, uint32_t keeper, Instant at, EstimateBasis& basis) const;
  [[nodiscard]] Instant UntilOf(const Gap& gap) const;
  [[nodiscard]] Duration RunOf(const Waiter& waiter) const { return waiter.run.spans[outlook_]; }

  const Scene& scene_;
  const size_t outlook_;
  const Instant horizon_;
  std::vector<Keeper> keepers_;
  std::vector<ZoneState> zones_;
  std::vector<Parted> parted_;
  std::multiset<Instant> crossing_;                  // ends of jobs across zones
  std::vector<std::pair<ZoneState*, Offer>> moved_;  // for the job at hand alone
  std::vector<OpenGap> open_;                        // of the last OpenGaps
  uint32_t next_number_ = 0;
  // What a job found was not there when it took it: an error in here. No decision rests on
  // estimates, so there are none then, rather than no scheduler. Tests see to it that this does not
  // happen.
  bool lost_ = false;
  uint32_t searches_ = 0;   // for moments of turns
  bool may_search_ = true;  // for the job at hand: what it finds it finds again when it takes it
};

}  // namespace tide::estimate
