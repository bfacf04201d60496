#pragma once
// Tide's nouns as the API's JSON objects: the field names of types.proto, enum words in lower
// case, times in RFC 3339, durations in seconds, null for what is not set or not known.

#include <string>
#include <string_view>

#include "scheduler/core/model/gpu_use.h"
#include "tide/v1/scheduler.pb.h"
#include "tide/v1/types.pb.h"

namespace tide::api {

// How much of a job is shown.
enum class Detail : uint8_t {
  kAll,
  kNoSpec,   // without what its owner wrote into the spec: command, environment, paths, labels
  kOutline,  // name, owner, project, state, size, times
};
inline constexpr size_t kDetails = 3;

//   archived: adds "archived": true. Where not all is shown, "detail" says how much.
[[nodiscard]] std::string JobJson(const tide::v1::Job& job,
                                  Detail detail = Detail::kAll,
                                  bool archived = false);
[[nodiscard]] std::string NodeJson(const tide::v1::Node& node);
[[nodiscard]] std::string IncidentJson(const tide::v1::Incident& incident);
// Encodes an object of any kind, for what is written once for all kinds.
[[nodiscard]] inline std::string ToJson(const tide::v1::Node& node) {
  return NodeJson(node);
}
[[nodiscard]] inline std::string ToJson(const tide::v1::Incident& incident) {
  return IncidentJson(incident);
}
// {job, state, outcome, summary, reasons, rev}
[[nodiscard]] std::string WhyJson(const tide::v1::Job& job, uint64_t rev);
// {held, useful, save, restart, recomputed, lost_to_preemption, lost_to_faults, unknown, unsaved}:
// all but `held` add up to it. What is still unclear is unknown.
[[nodiscard]] std::string GpuTimeJson(const HeldTime& held);
// {verdict, plan_hash, layout, part, opportunistic, borrows, cross_zone_pairs, victims, reasons}
[[nodiscard]] std::string PlanJson(const tide::v1::PlanJobResponse& plan);

// "running", "link_down"; "" for the unspecified value.
[[nodiscard]] std::string StateWord(tide::v1::JobState state);
[[nodiscard]] std::string StateWord(tide::v1::NodeState state);
[[nodiscard]] std::string OutcomeWord(tide::v1::Outcome outcome);

// A JSON string literal, with quotes. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string Quoted(std::string_view text);

// "ENOSPC"; empty for a number that is no error of the system.
[[nodiscard]] std::string ErrnoName(int code);

}  // namespace tide::api
