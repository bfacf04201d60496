#pragma once
// Alerts: what a person has to be told of at once, out of the cluster as it is shown. Pure.

#include <cstdint>
#include <map>
#include <string>

#include "api/view/view.h"
#include "common/base/time.h"

namespace tide::api {

// A node whose agent is silent for so long may need somebody.
inline constexpr Duration kLostNodeAlertAfter = Duration::Minutes(10);
// So may a cluster whose scheduler is.
inline constexpr Duration kNoSchedulerAlertAfter = Duration::Seconds(60);

struct Alert {
  std::string summary;  // a sentence
  std::string node;     // "" = it is about none
  uint64_t fault = 0;   // 0 = none
  Instant since;        // another time means that it began anew
  bool operator==(const Alert&) const = default;
};

// [key]: "fault-17", "node-a-l07-n03", "scheduler". A key that is not there has ended, or never
// was.
using Alerts = std::map<std::string, Alert>;

// Returns the alerts of a view: faults that are more than a node's, nodes that automation took out
// and leaves to people, nodes that are lost for long. One of a node is kept under one key.
[[nodiscard]] Alerts FiringAlerts(const View& view, Instant now);

// Returns whether a scheduler that has been silent for so many seconds is an alert.
[[nodiscard]] bool IsSilentForLong(int64_t silent_s);
// Returns the alert for a scheduler that is silent, which began then.
[[nodiscard]] Alert SilentSchedulerAlert(Instant since);
inline constexpr const char* kSchedulerKey = "scheduler";

}  // namespace tide::api
