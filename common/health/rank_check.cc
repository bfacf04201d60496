#include "common/health/rank_check.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace tide::health {
namespace {

constexpr auto kPhaseNames = std::to_array<std::string_view>(
    {"not attached", "training", "waiting", "saving", "saved", "evaluating", "done"});

bool Counts(const RankTick& rank) {
  return rank.age.nanos() > 0 && rank.step >= 0 &&
         rank.phase != std::to_underlying(RankPhase::kUnattached) &&
         rank.phase != std::to_underlying(RankPhase::kDone);
}

bool IsInSection(const RankTick& rank) {
  return rank.phase == std::to_underlying(RankPhase::kSaving) ||
         rank.phase == std::to_underlying(RankPhase::kEvaluating) ||
         rank.phase == std::to_underlying(RankPhase::kAcknowledged);
}

template <typename T, typename Get>
T MedianOf(const std::vector<RankTick>& ranks, const Get& get) {
  std::vector<T> values;
  values.reserve(ranks.size());
  for (const RankTick& rank : ranks) {
    values.push_back(get(rank));
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string Steps(int64_t count) {
  return std::to_string(count) + (count == 1 ? " step" : " steps");
}

// Reports whether a function of PyTorch is one in which ranks wait for each other.
bool IsCollective(std::string_view place) {
  return place.find("(distributed_c10d.py:") != std::string_view::npos;
}

// Says what a process state means for a rank that does not get on; "" = nothing.
std::string_view WhyStateIsOdd(char state) {
  switch (state) {
    case 'T':
    case 't':
      return "its process is stopped (SIGSTOP, or a debugger)";
    case 'D':
      return "its process hangs in the kernel";
    case 'Z':
    case 'X':
      return "its process has ended";
    default:
      return "";
  }
}

std::string WhyLinkIsOdd(const RankTick& rank) {
  return rank.unanswered.empty()
             ? "what is sent to it is not acknowledged"
             : "what it sends to " + rank.unanswered.front() + " is not acknowledged";
}

// Finds those that differ from most, by the first kind of evidence that tells some from the rest.
class OddOnes {
 public:
  //   links_known: a link that does not get through would have been found by now.
  OddOnes(const std::vector<RankTick>& ranks, bool links_known)
      : ranks_(ranks), links_known_(links_known) {}

  std::vector<OddRank> Find() {
    constexpr auto kKinds = std::to_array({&OddOnes::ByState,
                                           &OddOnes::ByLink,
                                           &OddOnes::ByStep,
                                           &OddOnes::ByPhase,
                                           &OddOnes::ByPlace});
    for (const auto kind : kKinds) {
      std::vector<OddRank> odd = (this->*kind)();
      if (!odd.empty() && odd.size() * 2 <= ranks_.size()) {
        if (kind == &OddOnes::ByStep && odd.size() > 1 && !links_known_) {
          return {};
        }
        std::ranges::sort(odd, {}, &OddRank::rank);
        odd.resize(std::min(odd.size(), kOddRanksMax));
        return odd;
      }
    }
    return {};
  }

 private:
  std::vector<OddRank> ByState() {
    std::vector<OddRank> odd;
    for (const RankTick& rank : ranks_) {
      if (const std::string_view why = WhyStateIsOdd(rank.state); !why.empty()) {
        odd.push_back({rank.rank, std::string(why), rank.state});
      }
    }
    return odd;
  }

  // Takes both ends of a link over which nothing is acknowledged for odd, and of several such links
  // the end that most of them share. Peers that are no ranks may have ended long ago.
  std::vector<OddRank> ByLink() {
    std::map<std::string_view, std::vector<size_t>> owners;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      for (const std::string& address : ranks_[i].addresses) {
        owners[address].push_back(i);
      }
    }
    std::map<size_t, size_t> links;  // by rank
    for (size_t i = 0; i < ranks_.size(); ++i) {
      for (const std::string& address : ranks_[i].unanswered) {
        const auto peers = owners.find(address);
        if (peers == owners.end() || std::ranges::count(peers->second, i) > 0) {
          continue;
        }
        ++links[i];
        for (const size_t peer : peers->second) {
          ++links[peer];
        }
      }
    }
    std::vector<OddRank> odd;
    const auto most =
        std::ranges::max_element(links, {}, [](const auto& each) { return each.second; });
    for (const auto& [i, count] : links) {
      if (count == most->second) {
        odd.push_back({ranks_[i].rank, WhyLinkIsOdd(ranks_[i]), 0});
      }
    }
    return odd;
  }

  std::vector<OddRank> ByStep() {
    const auto most = MedianOf<int64_t>(ranks_, [](const RankTick& rank) { return rank.step; });
    std::vector<OddRank> odd;
    for (const RankTick& rank : ranks_) {
      if (rank.step < most) {
        odd.push_back({rank.rank, Steps(most - rank.step) + " behind most ranks", 0});
      }
    }
    return odd;
  }

  std::vector<OddRank> ByPhase() {
    std::map<uint32_t, size_t> counts;
    for (const RankTick& rank : ranks_) {
      ++counts[rank.phase];
    }
    const uint32_t most =
        std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
    std::vector<OddRank> odd;
    for (const RankTick& rank : ranks_) {
      if (rank.phase != most) {
        odd.push_back({rank.rank,
                       std::string(RankPhaseName(rank.phase)) + ", while most ranks are " +
                           std::string(RankPhaseName(most)),
                       0});
      }
    }
    return odd;
  }

  // The others wait in a collective for one that does something else.
  std::vector<OddRank> ByPlace() {
    std::map<std::string, size_t> counts;
    for (const RankTick& rank : ranks_) {
      if (rank.place.empty()) {
        return {};  // it may be anywhere
      }
      ++counts[rank.place];
    }
    const auto most = std::ranges::max_element(counts, {}, [](const auto& each) {
      return std::pair(each.second, IsCollective(each.first));  // of two ranks one is in it
    });
    const bool told_apart =
        IsCollective(most->first) && std::ranges::count_if(counts, [](const auto& each) {
                                       return IsCollective(each.first);
                                     }) == 1;
    if (most->second * 2 <= ranks_.size() && !told_apart) {
      return {};
    }
    std::vector<OddRank> odd;
    for (const RankTick& rank : ranks_) {
      if (rank.place != most->first) {
        odd.push_back(
            {rank.rank, "in " + rank.place + ", while most ranks are in " + most->first, 0});
      }
    }
    return odd;
  }

  const std::vector<RankTick>& ranks_;
  const bool links_known_;
};

}  // namespace

std::string_view RankPhaseName(uint32_t phase) {
  return phase < kPhaseNames.size() ? kPhaseNames.at(phase) : "";
}

RanksVerdict JudgeRanks(const std::vector<RankTick>& ranks) {
  std::vector<RankTick> running;
  std::ranges::copy_if(ranks, std::back_inserter(running), Counts);
  RanksVerdict verdict;
  verdict.limit = kStallLeast;
  if (running.empty()) {
    return verdict;
  }
  const auto step_time = [](const RankTick& rank) { return rank.step_time; };
  verdict.step_time = MedianOf<Duration>(running, step_time);
  const Duration longest = std::ranges::max(running, {}, step_time).step_time;
  verdict.limit = std::max(kStallLeast, longest * 2 + kStallMore);
  verdict.in_section = std::ranges::any_of(running, IsInSection);
  if (verdict.in_section) {
    verdict.limit = std::max(verdict.limit, kStallInSection);
  }
  verdict.silence = std::ranges::min(running, {}, &RankTick::age).age;
  verdict.stalled = verdict.silence > verdict.limit;
  if (verdict.stalled) {
    const bool links_known = verdict.silence > verdict.limit + kLinksWithin;
    verdict.odd = OddOnes(running, links_known).Find();
  }
  return verdict;
}

}  // namespace tide::health
