#include "api/alerts/alert.h"

#include <utility>

namespace tide::api {
namespace {

void AddNode(const tide::v1::Node& node, Instant now, Alerts& alerts) {
  const Instant since = Instant::FromUnixNanos(node.state_since());
  std::string what;
  if (node.awaits_person()) {
    what = " is out of service and waits for a person: " + node.reason();
  } else if (node.state() == tide::v1::NODE_STATE_LOST && now - since >= kLostNodeAlertAfter) {
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

Alerts SilentSchedulerAlert(int64_t silent_s) {
  if (silent_s < kNoSchedulerAlertAfter.nanos() / Duration::Seconds(1).nanos()) {
    return {};
  }
  // How long is left out: the alert would be another one at each look.
  return {{"scheduler", {"no scheduler answers the API server", "", 0, Instant()}}};
}

}  // namespace tide::api
