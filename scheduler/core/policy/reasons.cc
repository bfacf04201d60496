#include "scheduler/core/policy/reasons.h"

#include <algorithm>

namespace tide {
namespace {

std::string Count(uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string Name(JobId job) {
  return FormatJobName(job.value());
}

// 2500 → "2.5".
std::string Nodes(int64_t milli_nodes) {
  std::string text = std::to_string(milli_nodes / 1000);
  if (const int64_t rest = milli_nodes % 1000; rest != 0) {
    std::string digits = std::to_string(1000 + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

ReasonText QuotaWords(const Job& job, const char* subject, const QuotaShortage& row) {
  std::string scope = row.priority ? " in class " + PriorityName(*row.priority) : "";
  scope += row.group.empty() ? "" : " of group " + row.group;
  std::string remedy;
  const auto add = [&](const std::string& way) { remedy += (remedy.empty() ? "" : "; or ") + way; };
  if (row.open_priority) {
    add("priority: " + PriorityName(*row.open_priority) + " has quota left");
  }
  if (row.nodes_left > 0 && row.nodes_left < job.spec.nodes) {
    add("resources: {nodes: " + std::to_string(row.nodes_left) + "} would be within quota");
  }
  if (row.until.is_set()) {
    add("this quota ends at " + FormatRfc3339(row.until));
  }
  return {"",
          subject + (" " + row.name) + " uses " + Nodes(row.used) + " of " + Nodes(row.limit) +
              " nodes" + scope + "; it needs " + Nodes(row.wanted) + ", short " +
              Nodes(row.used + row.wanted - row.limit),
          remedy};
}

ReasonText Words(const Job& job, const Reason& reason) {
  const JobSpec& spec = job.spec;
  switch (reason.code) {
    case ReasonCode::kHeldUser:
      return {"", job.detail, "tide resume " + Name(job.id)};
    case ReasonCode::kBackoff:
      return {"", "waits until " + FormatRfc3339(reason.until) + " after a failure", ""};
    case ReasonCode::kPreemptYielded:
      return {"",
              "gave its nodes to " + Name(reason.other) + " and runs again after that has started",
              ""};
    case ReasonCode::kPreemptInProgress:
      return {"",
              Count(reason.count, "node") + " kept for it; " +
                  (reason.other == JobId()
                       ? std::string("starting")
                       : "waiting for " + Name(reason.other) + " to save and leave"),
              ""};
    case ReasonCode::kQuotaProject:
      return QuotaWords(job, "project", *reason.quota);
    case ReasonCode::kQuotaUser:
      return QuotaWords(job, "user", *reason.quota);
    case ReasonCode::kGroupUnknown:
      return {"", "there is no node of group " + spec.group + " now", "tide nodes"};
    case ReasonCode::kCrossZoneBusy:
      return {"", "it would have to cross zones, and another job does already", ""};
    case ReasonCode::kZoneCapacity: {
      std::string remedy;
      if (reason.fits_across) {
        remedy = "placement: {zone: cross-ok} would start it now, slower across zones";
      } else if (reason.count > 0) {
        remedy = "resources: {nodes: " + std::to_string(reason.count) + "} would start now";
      }
      const bool named = spec.zone != "single" && spec.zone != "cross-ok";
      return {"",
              "needs " + Count(spec.nodes, "node") + " free in " +
                  (named ? "zone " + spec.zone : std::string("one zone")) +
                  "; most free now: " + std::to_string(reason.count) + ", short " +
                  std::to_string(spec.nodes - std::min(spec.nodes, reason.count)),
              remedy};
    }
    case ReasonCode::kFragmented:
      return {"",
              "needs " + Count(spec.gpus_per_node, "GPU") + " on one node; " +
                  Count(reason.count, "GPU") + " free, at most " + std::to_string(reason.largest) +
                  " on one node",
              reason.largest > 0 ? "resources: {gpus_per_node: " + std::to_string(reason.largest) +
                                       "} would start now"
                                 : ""};
    case ReasonCode::kPreemptProtected:
      return {"",
              Name(reason.other) + " of the same class may run until " +
                  FormatRfc3339(reason.until) + " before its nodes are shared",
              "a higher priority does not wait for it"};
    case ReasonCode::kNodesUnhealthy:
      return {"",
              Count(reason.count, "node") + " of group " + spec.group + " out of service",
              "tide nodes"};
    case ReasonCode::kOrderAhead:
      return {"",
              Name(reason.other) + " of the same priority comes first and waits, too" +
                  (reason.count > 1 ? " (" + Count(reason.count, "job") + " ahead)" : ""),
              "tide why " + Name(reason.other)};
  }
  return {};
}

}  // namespace

std::string_view ReasonName(ReasonCode code) {
  switch (code) {
    case ReasonCode::kHeldUser:
      return "held.user";
    case ReasonCode::kBackoff:
      return "backoff";
    case ReasonCode::kPreemptYielded:
      return "preempt.yielded";
    case ReasonCode::kPreemptInProgress:
      return "preempt.in_progress";
    case ReasonCode::kQuotaProject:
      return "quota.project";
    case ReasonCode::kQuotaUser:
      return "quota.user";
    case ReasonCode::kGroupUnknown:
      return "group.unknown";
    case ReasonCode::kCrossZoneBusy:
      return "placement.cross_zone_busy";
    case ReasonCode::kZoneCapacity:
      return "placement.zone_capacity";
    case ReasonCode::kFragmented:
      return "placement.fragmented";
    case ReasonCode::kPreemptProtected:
      return "preempt.protected";
    case ReasonCode::kNodesUnhealthy:
      return "nodes.unhealthy";
    case ReasonCode::kOrderAhead:
      return "order.ahead";
  }
  return {};
}

ReasonText DescribeReason(const Job& job, const Reason& reason) {
  ReasonText text = Words(job, reason);
  text.code = ReasonName(reason.code);
  return text;
}

}  // namespace tide
