#include "scheduler/core/policy/estimate_sweep.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tide::estimate {
namespace {

// Gaps are a few idle nodes before a gang: a job looks at the first of them only, so that the cost
// stays bounded by counts.
constexpr int kGapsLookedAt = 8;
constexpr int kRoomsLookedAt = 32;
// How often in a sweep, and how exactly, the moment is searched for at which slowdowns are far
// enough apart for a turn. Those who ask first have used least; who asks after so many waits for
// the end.
constexpr uint32_t kSearchesMax = 2048;
constexpr int kSearchSteps = 10;  // of two half-lives: a minute and a half
// Shorter gaps are not worth a start.
constexpr Duration kGapLeast = Duration::Seconds(60);

}  // namespace

Sweep::Sweep(const Scene& scene, Outlook outlook)
    : scene_(scene),
      outlook_(static_cast<size_t>(outlook)),
      horizon_(scene.now() + kEstimateHorizon) {
  keepers_.reserve(scene.holders().size() + scene.waiters().size());
  zones_.reserve(scene.zones().size());
  for (const Holder& holder : scene.holders()) {
    Keeper keeper;
    keeper.holder = &holder;
    keeper.owner = holder.owner;
    keeper.priority = holder.priority;
    keeper.shared = Instant::Never();
    keeper.ends = holder.ends[outlook_];
    keeper.leave = holder.leave[outlook_];
    keepers_.push_back(keeper);
  }
  for (const uint32_t keeper : scene.crossing()) {
    crossing_.insert(keepers_[keeper].ends);
  }
  for (const Zone& zone : scene.zones()) {
    AddZone(zone, zones_.emplace_back());
  }
}

void Sweep::AddZone(const Zone& from, ZoneState& to) {
  if (from.idle > 0) {
    AddOffer(to, scene_.now(), from.idle, kNobody, kNobody);
  }
  for (const HeldNodes& held : from.held) {
    const Instant at = NextMoment(scene_.highest(), keepers_[held.holder], Instant());
    AddOffer(to, at, held.nodes, held.holder, kNobody);
  }
  for (const PartedNode& node : from.parted) {
    // It is whole when its last part leaves: who may have that one may have it all.
    uint32_t last = node.parts.front().first;
    for (const auto& [keeper, milli] : node.parts) {
      const auto key = [&](uint32_t of) {
        return std::pair(keepers_[of].priority, keepers_[of].ends);
      };
      last = key(keeper) > key(last) ? keeper : last;
    }
    const auto index = static_cast<uint32_t>(parted_.size());
    parted_.push_back({});
    const Instant end = keepers_[last].ends;
    AddOffer(to, NextMoment(scene_.highest(), keepers_[last], Instant()), 1, last, index);
    AddGap(to.rooms, {scene_.now(), 0, end, 1, node.room, index, kNobody});
    for (const auto& [keeper, milli] : node.parts) {
      const Instant at = NextMoment(scene_.highest(), keepers_[keeper], Instant());
      AddGap(to.rooms, {at, 0, end, 1, milli, index, keeper});
    }
  }
}

void Sweep::AddOffer(
    ZoneState& zone, Instant at, uint32_t nodes, uint32_t keeper, uint32_t parted) {
  if (nodes == 0) {
    return;
  }
  const Offer offer{at, at, next_number_++, nodes, keeper, parted};
  zone.offers.Insert(offer);
  if (parted != kNobody) {
    parted_[parted].offer = offer;
    parted_[parted].ends = EndOf(keeper);
  }
}

void Sweep::AddGap(Gaps& to, Gap gap) {
  gap.number = next_number_++;
  if (gap.room > 0 && gap.nodes > 0 && UntilOf(gap) - gap.from >= kGapLeast) {
    to.Insert(gap);
  }
}

uint32_t Sweep::AddKeeper(const Waiter& waiter, Instant start) {
  Keeper keeper;
  keeper.owner = waiter.owner;
  keeper.priority = waiter.priority;
  keeper.user = waiter.user;
  keeper.shared = start + waiter.slice;
  keeper.slowdown = waiter.slowdown.StartedAt(start);
  keeper.holds = waiter.holds + waiter.gpus;  // more than nothing
  keeper.ends = start + RunOf(waiter);
  keepers_.push_back(keeper);
  return static_cast<uint32_t>(keepers_.size() - 1);
}

// --- who may have what, and when ---------------------------------------------------------------

Instant Sweep::EndOf(uint32_t keeper) const {
  return keeper == kNobody ? scene_.now() : keepers_[keeper].ends;
}

Right Sweep::RightTo(const Waiter& waiter, const Keeper& keeper, Instant at) const {
  // Slowdowns cost more than the rest, and most are asked in vain.
  if (keeper.priority > waiter.priority || waiter.fails) {
    return Right::kNone;  // a job that keeps failing does not stop others
  }
  const Policy& policy = scene_.policy();
  const Footing footing{waiter.slowdown.At(at, policy.minimum_run), waiter.holds};
  if (keeper.holder != nullptr) {
    if (keeper.holder->runner == nullptr || keeper.holder->leaving) {
      return Right::kNone;
    }
    const Contender contender{
        waiter.job, waiter.number, waiter.user, waiter.priority, waiter.standing, footing};
    Runner runner = *keeper.holder->runner;
    runner.least = LeastFor(
        runner.job->slowdown.At(at, policy.minimum_run), runner.job->UnsavedAt(at), policy);
    return tide::RightTo(contender, runner, policy, at);
  }
  if (keeper.priority != waiter.priority || keeper.user == waiter.user || at < keeper.shared ||
      at < AsksFrom(waiter.since, policy)) {
    return Right::kNone;
  }
  const int64_t least = LeastFor(keeper.slowdown.At(at, policy.minimum_run), Duration(), policy);
  return IsItsTurn(footing, least, keeper.holds) ? Right::kTurn : Right::kNone;
}

bool Sweep::MayHave(const Waiter& waiter, uint32_t keeper, Instant at) const {
  return at >= EndOf(keeper) || MayTake(waiter, keepers_[keeper], at);
}

// After `after`: when time alone next changes whether a job of this class may have its nodes.
Instant Sweep::NextMoment(int32_t priority, const Keeper& keeper, Instant after) const {
  Instant next = std::max(keeper.ends, scene_.now());
  const auto consider = [&](Instant moment) {
    if (moment != Instant::Never()) {
      moment = std::max(moment, scene_.now());
      next = moment > after ? std::min(next, moment) : next;
    }
  };
  const Runner* runner = keeper.holder == nullptr ? nullptr : keeper.holder->runner;
  if (runner != nullptr && keeper.holder->leaving) {
    return next;
  }
  if (runner != nullptr && priority > keeper.priority) {
    consider(scene_.now());
  }
  if (priority >= keeper.priority) {
    const Instant safe_until = runner != nullptr ? runner->safe_until : keeper.shared;
    consider(safe_until);
    if (runner != nullptr) {
      consider(runner->reclaimed_until);
      consider(scene_.now());
    }
  }
  return next;
}

Instant Sweep::TurnMoment(const Waiter& waiter, const Keeper& keeper, Instant after) {
  const Runner* runner = keeper.holder != nullptr ? keeper.holder->runner : nullptr;
  const bool later = runner != nullptr && waiter.since <= runner->job->placed_at;
  const Instant safe_until = runner != nullptr ? runner->safe_until : keeper.shared;
  if (waiter.priority != keeper.priority || (after < safe_until && !later) || !may_search_) {
    return Instant::Never();
  }
  if (const Instant asks = AsksFrom(waiter.since, scene_.policy());
      after < asks && MayTake(waiter, keeper, asks)) {
    return asks;
  }
  ++searches_;
  // Beyond two half-lives the end comes first.
  Duration step = kSlowdownHalfLife * 2;
  if (!MayTake(waiter, keeper, after + step)) {
    return Instant::Never();
  }
  Instant refused = after;
  for (int i = 0; i < kSearchSteps; ++i) {
    step = Duration::Nanos(step.nanos() / 2);
    refused = MayTake(waiter, keeper, refused + step) ? refused : refused + step;
  }
  return refused + step;
}

Instant Sweep::OpensAt(const Waiter& waiter, uint32_t keeper, Instant from) {
  while (!MayHave(waiter, keeper, from)) {
    const Instant turn = TurnMoment(waiter, keepers_[keeper], from);
    from = std::min(turn, NextMoment(waiter.priority, keepers_[keeper], from));
  }
  return from;
}

// When somebody who may have it from `at` on does have it.
Instant Sweep::GoneAt(uint32_t keeper, Instant at) const {
  const bool asked = keeper != kNobody && at < EndOf(keeper);
  return asked ? std::min(at + keepers_[keeper].leave, EndOf(keeper)) : at;
}

Sweep::Offers::Place Sweep::MoveOn(ZoneState& zone, Offers::Place place, Instant at, Instant base) {
  Offer offer = zone.offers[place];
  const Offer before = offer;
  (void)zone.offers.Erase(place);
  offer.at = at;
  offer.base = base;
  zone.offers.Insert(offer);
  if (offer.parted != kNobody) {
    parted_[offer.parted].offer = offer;
  }
  return zone.offers.LowerBound(before);
}

Sweep::Offers::Place Sweep::Admit(const Waiter& waiter, ZoneState& zone, Offers::Place place) {
  while (place != zone.offers.end()) {
    const Offer& refused = zone.offers[place];
    if (MayHave(waiter, refused.keeper, refused.at)) {
      return place;
    }
    const Keeper& keeper = keepers_[refused.keeper];
    const Instant next = NextMoment(waiter.priority, keeper, refused.at);
    const Instant turn = TurnMoment(waiter, keeper, refused.at);
    if (turn >= next) {
      place = MoveOn(zone, place, next, next);
      continue;
    }
    Offer offer = refused;
    place = MoveOn(zone, place, turn, offer.base);
    offer.at = turn;
    moved_.emplace_back(&zone, offer);
  }
  return place;
}

void Sweep::MoveBack() {
  for (const auto& [zone, offer] : moved_) {
    if (const auto place = zone->offers.Find(offer); place != zone->offers.end()) {
      const Instant base = zone->offers[place].base;
      (void)MoveOn(*zone, place, base, base);
    }
  }
  moved_.clear();
}

// --- where ---------------------------------------------------------------------------------------

Instant Sweep::FindInOffers(const Waiter& waiter, ZoneState& zone) {
  uint32_t missing = waiter.nodes;
  Instant at = waiter.not_before;
  auto place = Admit(waiter, zone, zone.offers.begin());
  while (place != zone.offers.end()) {
    const Offer& offer = zone.offers[place];
    at = std::max(at, GoneAt(offer.keeper, offer.at));
    if (offer.nodes >= missing) {
      return at;
    }
    missing -= offer.nodes;
    place = Admit(waiter, zone, zone.offers.Next(place));
  }
  return Instant::Never();
}

Instant Sweep::UntilOf(const Gap& gap) const {
  return gap.parted != kNobody && parted_[gap.parted].open ? parted_[gap.parted].ends : gap.until;
}

const std::vector<Sweep::OpenGap>& Sweep::OpenGaps(const Waiter& waiter,
                                                   Gaps& gaps,
                                                   int most,
                                                   Instant before) {
  open_.clear();
  int looked = 0;
  for (auto place = gaps.begin(); place != gaps.end() && looked < most;
       place = gaps.Next(place), ++looked) {
    const Gap& gap = gaps[place];
    // One node is had from the first of them; none that begins later opens before that.
    const bool found = waiter.nodes == 1 && !open_.empty() && open_.front().at <= gap.from;
    if (gap.from >= before || found) {
      break;
    }
    if (gap.room < waiter.part) {
      continue;
    }
    const Instant from = OpensAt(waiter, gap.keeper, gap.from);
    const Instant at = std::max(GoneAt(gap.keeper, from), waiter.not_before);
    if (UntilOf(gap) - at >= kGapLeast) {
      open_.insert(std::ranges::upper_bound(open_, at, {}, &OpenGap::at), {at, gap});
    }
  }
  return open_;
}

// Whether those looked at would do, if all of them lasted: most gaps are too small for a gang.
bool Sweep::MayDo(const Gaps& gaps, uint32_t nodes) {
  int looked = 0;
  for (auto place = gaps.begin(); place != gaps.end() && looked < kGapsLookedAt;
       place = gaps.Next(place), ++looked) {
    if (gaps[place].nodes >= nodes) {
      return true;
    }
    nodes -= gaps[place].nodes;
  }
  return false;
}

Instant Sweep::FindInGaps(const Waiter& waiter, ZoneState& zone, Instant before) {
  if (!MayDo(zone.gaps, waiter.nodes)) {
    return Instant::Never();
  }
  const std::vector<OpenGap>& open = OpenGaps(waiter, zone.gaps, kGapsLookedAt, before);
  for (size_t i = 0; i < open.size(); ++i) {
    uint32_t nodes = 0;
    for (size_t early = 0; early <= i; ++early) {
      const bool lasts = open[early].gap.until - open[i].at >= kGapLeast;
      nodes += lasts ? open[early].gap.nodes : 0;
    }
    if (nodes >= waiter.nodes) {
      return open[i].at;
    }
  }
  return Instant::Never();
}

Instant Sweep::FindInRooms(const Waiter& waiter, ZoneState& zone, Instant before) {
  const std::vector<OpenGap>& open = OpenGaps(waiter, zone.rooms, kRoomsLookedAt, before);
  return open.empty() ? Instant::Never() : open.front().at;
}

// At most so many jobs cross at a time: it waits for one of them.
Instant Sweep::MayCrossFrom() const {
  const size_t most = scene_.policy().cross_zone_jobs_max;
  if (crossing_.size() < most) {
    return scene_.now();
  }
  if (most == 0) {
    return Instant::Never();
  }
  return *std::prev(crossing_.end(), static_cast<std::ptrdiff_t>(most));
}

std::vector<Sweep::Offers::Place> Sweep::FirstPlaces(const Waiter& waiter) {
  std::vector<Offers::Place> places;
  for (uint32_t i = waiter.first_zone; i < waiter.first_zone + waiter.zone_count; ++i) {
    ZoneState& zone = zones_[i];
    places.push_back(Admit(waiter, zone, zone.offers.begin()));
  }
  if (waiter.zones_max < waiter.zone_count) {  // the largest ones
    std::vector<uint32_t> order(waiter.zone_count);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) {
      return scene_.zones()[waiter.first_zone + i].in_service;
    });
    for (uint32_t i = waiter.zones_max; i < waiter.zone_count; ++i) {
      places[order[i]] = zones_[waiter.first_zone + order[i]].offers.end();
    }
  }
  return places;
}

size_t Sweep::Earliest(const Waiter& waiter, const std::vector<Offers::Place>& places) const {
  size_t earliest = places.size();
  Instant at = Instant::Never();
  for (size_t i = 0; i < places.size(); ++i) {
    const Offers& offers = zones_[waiter.first_zone + i].offers;
    if (places[i] != offers.end() && (earliest == places.size() || offers[places[i]].at < at)) {
      earliest = i;
      at = offers[places[i]].at;
    }
  }
  return earliest;
}

// Looks at all zones together, as placement.h does: it starts when all of them hold it.
Sweep::Found Sweep::FindAcross(const Waiter& waiter) {
  Found found;
  found.in = Found::In::kAcross;
  const Instant from = MayCrossFrom();
  if (from == Instant::Never()) {
    return found;
  }
  Instant at = std::max(from, waiter.not_before);
  uint32_t missing = waiter.nodes;
  std::vector<Offers::Place> places = FirstPlaces(waiter);
  for (size_t i = Earliest(waiter, places); i < places.size(); i = Earliest(waiter, places)) {
    ZoneState& zone = zones_[waiter.first_zone + i];
    const Offer& offer = zone.offers[places[i]];
    at = std::max(at, GoneAt(offer.keeper, offer.at));
    if (offer.nodes >= missing) {
      found.at = at;
      break;
    }
    missing -= offer.nodes;
    places[i] = Admit(waiter, zone, zone.offers.Next(places[i]));
  }
  return found;
}

Sweep::Found Sweep::Find(const Waiter& waiter) {
  Found best;
  const auto consider = [&](Instant at, Found::In in, uint32_t zone) {
    if (at < best.at) {
      best = {at, in, zone};
    }
  };
  for (uint32_t i = waiter.first_zone; i < waiter.first_zone + waiter.zone_count; ++i) {
    if (scene_.zones()[i].in_service >= waiter.nodes) {
      consider(FindInOffers(waiter, zones_[i]), Found::In::kOffers, i);
    }
    consider(FindInGaps(waiter, zones_[i], best.at), Found::In::kGaps, i);
    if (waiter.part > 0) {
      consider(FindInRooms(waiter, zones_[i], best.at), Found::In::kRooms, i);
    }
  }
  if (waiter.zones_max > 1 && waiter.zone_count > 1) {
    const Found across = FindAcross(waiter);
    best = across.at < best.at ? across : best;
  }
  return best;
}

// --- taking ------------------------------------------------------------------------------------

void Sweep::Count(const Waiter& waiter, uint32_t of, Instant at, EstimateBasis& basis) const {
  if (of == kNobody) {
    return;
  }
  const Keeper& keeper = keepers_[of];
  if (keeper.holder == nullptr || keeper.holder->runner == nullptr) {
    ++basis.ahead;
  } else if (keeper.holder->leaving || at < keeper.ends) {
    ++basis.turns;
    if (keeper.priority == waiter.priority && RightTo(waiter, keeper, at) == Right::kTurn) {
      const int64_t slowdown = waiter.slowdown.At(at, scene_.policy().minimum_run);
      if (slowdown > basis.turn_slowdown) {
        basis.turn_slowdown = slowdown;
        basis.turn_from = keeper.holder->job->id;
      }
    }
  } else if (keeper.holder->basis == RunTimeBasis::kLimit) {
    ++basis.limits;
  } else if (keeper.holder->basis == RunTimeBasis::kElapsed) {
    ++basis.elapsed;
  } else {
    ++basis.history;
  }
}

// Until `start` its nodes are for whom can use them: a gang does not keep others from taking a turn
// before it has all of its nodes together.
void Sweep::Release(const Offer& offer, ZoneState& zone, Instant start) {
  const bool asked = offer.keeper != kNobody && offer.base < EndOf(offer.keeper);
  AddGap(zone.gaps,
         {offer.base, 0, start, offer.nodes, kMilliNodes, kNobody, asked ? offer.keeper : kNobody});
  if (offer.parted != kNobody) {
    parted_[offer.parted].open = false;
  }
}

void Sweep::TakeOffers(
    const Waiter& waiter, ZoneState& zone, uint32_t nodes, Instant start, EstimateBasis& basis) {
  while (nodes > 0) {
    const auto place = Admit(waiter, zone, zone.offers.begin());
    if (place == zone.offers.end()) {
      lost_ = true;
      return;
    }
    Offer taken = zone.offers[place];
    (void)zone.offers.Erase(place);
    Count(waiter, taken.keeper, taken.at, basis);
    if (taken.nodes > nodes) {
      // Its holder leaves all of them.
      AddOffer(zone, GoneAt(taken.keeper, taken.at), taken.nodes - nodes, kNobody, kNobody);
      taken.nodes = nodes;
    }
    nodes -= taken.nodes;
    Release(taken, zone, start);
  }
}

void Sweep::TakePartOfOffer(const Waiter& waiter,
                            ZoneState& zone,
                            Instant start,
                            EstimateBasis& basis) {
  TakeOffers(waiter, zone, 1, start, basis);
  const auto index = static_cast<uint32_t>(parted_.size());
  parted_.push_back({});
  const uint32_t keeper = AddKeeper(waiter, start);
  const Instant end = keepers_[keeper].ends;
  AddOffer(zone, end, 1, keeper, index);
  AddGap(zone.rooms, {start, 0, end, 1, kMilliNodes - waiter.part, index, kNobody});
}

void Sweep::TakeGaps(const Waiter& waiter, ZoneState& zone, Instant start, EstimateBasis& basis) {
  const Instant end = start + RunOf(waiter);
  uint32_t missing = waiter.nodes;
  const std::vector<OpenGap> gaps = OpenGaps(waiter, zone.gaps, kGapsLookedAt);
  for (const OpenGap& open : gaps) {
    const Gap& gap = open.gap;
    if (gap.until - start < kGapLeast) {
      continue;
    }
    zone.gaps.Erase(gap);
    Count(waiter, gap.keeper, gap.from, basis);
    const uint32_t nodes = std::min(gap.nodes, missing);
    missing -= nodes;
    AddGap(zone.gaps, {gap.from, 0, gap.until, gap.nodes - nodes, gap.room, kNobody, gap.keeper});
    AddGap(zone.gaps, {end, 0, gap.until, nodes, gap.room, kNobody, kNobody});
    if (missing == 0) {
      return;
    }
  }
  lost_ = true;
}

void Sweep::TakeRoom(const Waiter& waiter, ZoneState& zone, Instant start, EstimateBasis& basis) {
  const std::vector<OpenGap>& open = OpenGaps(waiter, zone.rooms, kRoomsLookedAt);
  if (open.empty()) {
    lost_ = true;
    return;
  }
  const Gap gap = open.front().gap;
  zone.rooms.Erase(gap);
  Count(waiter, gap.keeper, gap.from, basis);
  const uint32_t keeper = AddKeeper(waiter, start);
  const Instant end = keepers_[keeper].ends;
  if (Parted& node = parted_[gap.parted]; node.open && node.ends < end) {
    // The node comes together later, when this part ends.
    zone.offers.Erase(node.offer);
    AddOffer(zone, end, 1, keeper, gap.parted);
  }
  const Instant until = UntilOf(gap);
  AddGap(zone.rooms, {start, 0, until, 1, gap.room - waiter.part, gap.parted, kNobody});
  AddGap(zone.rooms,
         {NextMoment(waiter.priority, keepers_[keeper], Instant()),
          0,
          until,
          1,
          waiter.part,
          gap.parted,
          keeper});
}

void Sweep::TakeAcross(const Waiter& waiter, Instant start, EstimateBasis& basis) {
  std::vector<uint32_t> parts(waiter.zone_count);
  std::vector<Offers::Place> places = FirstPlaces(waiter);
  for (uint32_t missing = waiter.nodes; missing > 0;) {
    const size_t i = Earliest(waiter, places);
    if (i == places.size()) {
      lost_ = true;
      return;
    }
    ZoneState& zone = zones_[waiter.first_zone + i];
    const uint32_t nodes = std::min(missing, zone.offers[places[i]].nodes);
    parts[i] += nodes;
    missing -= nodes;
    places[i] = Admit(waiter, zone, zone.offers.Next(places[i]));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    TakeOffers(waiter, zones_[waiter.first_zone + i], parts[i], start, basis);
  }
  const uint32_t keeper = AddKeeper(waiter, start);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] > 0) {
      AddOffer(zones_[waiter.first_zone + i], keepers_[keeper].shared, parts[i], keeper, kNobody);
    }
  }
  crossing_.insert(keepers_[keeper].ends);
}

void Sweep::Start(const Waiter& waiter, const Found& found, EstimateBasis& basis) {
  ZoneState& zone = zones_[found.zone];
  if (found.in == Found::In::kRooms) {
    TakeRoom(waiter, zone, found.at, basis);
  } else if (found.in == Found::In::kGaps) {
    TakeGaps(waiter, zone, found.at, basis);
  } else if (found.in == Found::In::kAcross) {
    TakeAcross(waiter, found.at, basis);
  } else if (waiter.part > 0) {
    TakePartOfOffer(waiter, zone, found.at, basis);
  } else {
    TakeOffers(waiter, zone, waiter.nodes, found.at, basis);
    const uint32_t keeper = AddKeeper(waiter, found.at);
    const Instant at = NextMoment(waiter.priority, keepers_[keeper], Instant());
    AddOffer(zone, at, waiter.nodes, keeper, kNobody);
  }
}

std::vector<SweepStart> Sweep::Run() {
  std::vector<SweepStart> starts(scene_.waiters().size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const Waiter& waiter = scene_.waiters()[i];
    starts[i].none = waiter.none;
    if (waiter.none != NoEstimate::kNone) {
      continue;
    }
    may_search_ = searches_ < kSearchesMax;
    const Found found = Find(waiter);
    if (found.at == Instant::Never()) {
      starts[i].none = NoEstimate::kCapacity;
    } else if (found.at > horizon_) {
      starts[i].none = NoEstimate::kTooFar;  // who comes after it is as far, but may be smaller
    } else {
      starts[i].at = found.at;
      Start(waiter, found, starts[i].basis);
    }
    MoveBack();
  }
  if (lost_) {
    std::ranges::for_each(starts, [](SweepStart& start) { start.none = NoEstimate::kUnsure; });
  }
  return starts;
}

}  // namespace tide::estimate
