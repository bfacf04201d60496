#include "api/alerts/alert.h"

#include <utility>

namespace tide::api {
namespace {

// Reports whether nobody has taken the node away, and its agent does not answer: also while it was
// on its way back, as from a reboot.
bool IsMissed(const tide::v1::Node& node) {
  const bool is_out = node.state() == tide::v1::NODE_STATE_QUARANTINED ||
                      node.state() == tide::v1::NODE_STATE_DRAINED;
  return node.state() == tide::v1::NODE_STATE_LOST ||
         (is_out && !node.connected() && node.actor() == "tide");
}

void AddNode(const tide::v1::Node& node, Instant now, Alerts& alerts) {
  const Instant since = Instant::FromUnixNanos(node.state_since());
  std::string what;
  if (node.awaits_person()) {
    what = " is out of service and waits for a person: " + node.reason();
  } else if (IsMissed(node) && now - since >= kLostNodeAlertAfter) {
    what = " is lost: its agent does not answer";
  }
  if (!what.empty()) {
    alerts["node-" + node.name()] = {node.name() + what, node.name(), 0, since};
  }
}

}  // namespace

Alerts FiringAlerts(const View& view, Instant now) {
  Alerts alerts;
  for (const auto& [id, row] : view.incidents) {
    const tide::v1::Incident& incident = row->message;
    if (incident.page() && incident.cleared_at() == 0) {
      alerts["fault-" + std::to_string(id)] = {incident.meaning() + ": " + incident.text(),
                                               incident.node(),
                                               id,
                                               Instant::FromUnixNanos(incident.first_seen_at())};
    }
  }
  for (const auto& [name, row] : view.nodes) {
    AddNode(row->message, now, alerts);
  }
  return alerts;
}

bool IsSilentForLong(int64_t silent_s) {
  return Duration::Seconds(silent_s) >= kNoSchedulerAlertAfter;
}

Alert SilentSchedulerAlert(Instant since) {
  return {"no scheduler answers the API server", "", 0, since};
}

}  // namespace tide::api
