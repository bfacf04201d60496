#include "scheduler/core/policy/reasons.h"

#include <algorithm>

#include "common/spec/dependency_text.h"
#include "scheduler/core/model/slowdown.h"
#include "scheduler/core/policy/shortage.h"
#include "scheduler/core/policy/size.h"

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
  if (row.nodes_left > 0 && row.nodes_left < job.spec->nodes) {
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

ReasonText DependencyWords(const Job& job, const Reason& reason) {
  const auto awaited = std::ranges::find(job.spec->after, reason.other, &Dependency::job);
  std::string end = "the end";
  std::string name = Name(reason.other);
  if (awaited != job.spec->after.end()) {
    name = FormatAwaited(*awaited);
    end = awaited->on == AfterOutcome::kSuccess   ? "the success"
          : awaited->on == AfterOutcome::kFailure ? "the failure"
                                                  : end;
  }
  return {"",
          "waits for " + end + " of " + name +
              (reason.count > 1 ? ", and for " + std::to_string(reason.count - 1) + " more" : ""),
          "tide why " + (name.ends_with(']') ? "'" + name + "'" : name) + ": how far that is"};
}

ReasonText ZoneCapacityWords(const Job& job, const Reason& reason) {
  std::string remedy;
  if (reason.fits_across) {
    remedy = "placement: {zone: cross-ok} would start it now, slower across zones";
  } else if (reason.count > 0) {
    remedy = "resources: {nodes: " + std::to_string(reason.count) + "} would start now";
  }
  if (reason.open_priority) {
    remedy +=
        (remedy.empty() ? "" : "; or ") + ("priority: " + PriorityName(*reason.open_priority) +
                                           " would take its nodes from lower jobs");
  }
  if (remedy.empty()) {
    remedy = "tide ps --all: who runs, and for how long";
  }
  const bool named = IsNamedZone(job.spec->zone);
  return {
      "",
      "needs " + Count(job.spec->nodes, "node") + KindText(job.spec) + " free in " +
          (reason.joined ? "zones that are joined"
                         : DescribeZones(named || reason.across ? job.spec->zone : kSingleZone)) +
          "; most free now: " + std::to_string(reason.count) + ", short " +
          std::to_string(job.spec->nodes - std::min(job.spec->nodes, reason.count)),
      remedy};
}

ReasonText FragmentedWords(const Job& job, const Reason& reason) {
  const std::string largest = NumberText(reason.lacking, reason.largest);
  const std::string startable = NumberText(reason.lacking, reason.startable);
  return {"",
          "needs " + AmountText(reason.lacking, reason.wanted) + " on one node" +
              KindText(job.spec) + "; " + AmountText(reason.lacking, reason.count) +
              " free, at most " + largest + " on one node",
          reason.startable > 0
              ? "resources: {" + FieldOf(reason.lacking) + ": " + startable + "} would start now"
              : "tide ps --all: who runs, and for how long"};
}

ReasonText TurnWords(const Reason& reason) {
  return {"",
          "no job of its class gives way before waiting has slowed this one down " +
              FoldText(reason.count) + ", then " + Name(reason.other) +
              " does; four times that and more where its owner holds as much",
          "the estimate: about when; a higher priority does not wait for its turn"};
}

ReasonText Words(const Job& job, const Reason& reason) {
  const JobSpec& spec = job.spec;
  switch (reason.code) {
    case ReasonCode::kHeldUser:
      return {"", job.detail, "tide resume " + Name(job.id)};
    case ReasonCode::kHeldDependency:
      return DependencyWords(job, reason);
    case ReasonCode::kBackoff:
      return {"",
              "waits until " + FormatRfc3339(reason.until) + " after a failure",
              "tide logs " + Name(job.id) + ": what failed"};
    case ReasonCode::kPreemptYielded:
      return {"",
              "gave its nodes to " + Name(reason.other) + " and runs again after that has started",
              "tide why " + Name(reason.other) + ": how far that is"};
    case ReasonCode::kPreemptInProgress:
      return {
          "",
          Count(reason.count, "node") + " kept for it; " +
              (reason.other == JobId()
                   ? std::string("starting")
                   : "waiting for " + Name(reason.other) + " to save and leave"),
          "tide show " + Name(reason.other == JobId() ? job.id : reason.other) + ": how far it is"};
    case ReasonCode::kQuotaProject:
      return QuotaWords(job, "project", *reason.quota);
    case ReasonCode::kQuotaUser:
      return QuotaWords(job, "user", *reason.quota);
    case ReasonCode::kGroupUnknown:
      return {"",
              "there is no node of group " + spec.group + " now",
              "tide nodes: the groups there are; submit it again for one of them"};
    case ReasonCode::kSizeNever:
      return {"",
              "needs " + Count(spec.nodes, "node") + ", and as the cluster is now it could never " +
                  "have more than " + std::to_string(reason.count),
              reason.count > 0 ? "resources: {nodes: " + std::to_string(reason.count) +
                                     "} could run; submit it again"
                               : "tide nodes: what there is; submit it again for that"};
    case ReasonCode::kCrossZoneBusy:
      return {"",
              "it would have to cross zones, and " +
                  (reason.other == JobId() ? "no job may" : Name(reason.other) + " does already"),
              reason.other == JobId() ? "placement: {zone: single}: wait for one zone to hold it"
                                      : "tide show " + Name(reason.other) + ": how far that is"};
    case ReasonCode::kZoneCapacity:
      return ZoneCapacityWords(job, reason);
    case ReasonCode::kFragmented:
      return FragmentedWords(job, reason);
    case ReasonCode::kPreemptProtected:
      return {"",
              Name(reason.other) + " of the same class keeps its nodes until " +
                  FormatRfc3339(reason.until) +
                  " from jobs like this one, unless they waited when it started",
              "a higher priority does not wait for it; tide show " + Name(reason.other)};
    case ReasonCode::kTurn:
      return TurnWords(reason);
    case ReasonCode::kNodesUnhealthy:
      return {"",
              Count(reason.count, "node") + " of group " + spec.group + " out of service",
              "tide nodes: which and why; tide validate or tide undrain brings them back"};
    case ReasonCode::kMaintenance:
      return {"",
              Count(reason.count, "node") + " kept free for a maintenance; its max_runtime would " +
                  "run into that",
              "max_runtime: a time limit that ends before " + FormatRfc3339(reason.until) +
                  " would start; or wait for the end of the maintenance"};
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
    case ReasonCode::kHeldDependency:
      return "held.dependency";
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
    case ReasonCode::kSizeNever:
      return "size.never";
    case ReasonCode::kCrossZoneBusy:
      return "placement.cross_zone_busy";
    case ReasonCode::kZoneCapacity:
      return "placement.zone_capacity";
    case ReasonCode::kFragmented:
      return "placement.fragmented";
    case ReasonCode::kPreemptProtected:
      return "preempt.protected";
    case ReasonCode::kTurn:
      return "turn.slowdown";
    case ReasonCode::kNodesUnhealthy:
      return "nodes.unhealthy";
    case ReasonCode::kMaintenance:
      return "nodes.maintenance";
    case ReasonCode::kOrderAhead:
      return "order.ahead";
  }
  return {};
}

ReasonText DescribeReason(const Job& job, const Reason& reason) {
  ReasonText text = Words(job, reason);
  text.code = ReasonName(reason.code);
  if (reason.beside) {
    text.remedy.clear();
  }
  return text;
}

}  // namespace tide
