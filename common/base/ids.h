#pragma once
// Strong identifiers: a JobId cannot be passed where a NodeId is wanted.

#include <compare>
#include <cstdint>
#include <functional>

namespace tide {

template <typename Tag, typename Rep = uint64_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

using JobId = StrongId<struct JobTag>;              // 1, 2, 3 …; shown as j-1; 0 = none
using NodeId = StrongId<struct NodeTag, uint32_t>;  // dense index, given at first join
using IncidentId = StrongId<struct IncidentTag>;    // 1, 2, 3 …
using Epoch = StrongId<struct EpochTag>;            // attempt number of a job; 0 = never started
using Term = StrongId<struct TermTag>;              // leadership number

}  // namespace tide
