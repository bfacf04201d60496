#pragma once
// The numbers of scheduling policy, and who may have how much. Durations are loop time.
// docs/guide/policy.md says what they mean to people, policy_text.h reads them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace tide {

// A node of the tree of projects. Its share of what its parent has goes by weight.
struct ProjectPolicy {
  std::string parent;  // "" = at the top
  int64_t weight = 1;
  bool operator==(const ProjectPolicy&) const = default;
};
inline constexpr int kProjectDepthMax = 16;

// How many nodes the jobs of a project (with all below it) or of a user may have at a time.
// Of rows that differ in `until` alone, the one that ends first counts.
struct QuotaRow {
  enum class Subject : uint8_t {
    kProject,
    kUser,
  };
  Subject subject = Subject::kProject;
  std::string name;                   // of the project or the user
  std::string group;                  // "" = any
  std::optional<int32_t> priority;    // the class that a job asks for; nothing = any
  uint32_t nodes = 0;                 // guaranteed
  std::optional<uint32_t> limit = 0;  // at most, with what is borrowed; nothing = no bound
  Instant until = Instant::Never();   // from then on the row counts no more
  bool operator==(const QuotaRow&) const = default;
};

// A job that has run for `after`, over all its attempts, goes on in the class `to`.
struct Demotion {
  int32_t to = 0;
  Duration after;
  bool operator==(const Demotion&) const = default;
};

struct Policy {
  Duration stop_grace = Duration::Seconds(10);     // SIGTERM to SIGKILL
  Duration fault_grace = Duration::Seconds(5);     // for survivors of a fault
  Duration evidence_wait = Duration::Seconds(2);   // for a fault that explains a failure
  Duration start_timeout = Duration::Minutes(10);  // Starting must become Running
  Duration leave_grace = Duration::Minutes(2);     // first task saved and left, to the last one
  Duration suspend_notice_max = Duration::Minutes(10);
  Duration probation = Duration::Minutes(30);
  Duration isolation_timeout = Duration::Minutes(10);  // agents stop their tasks when cut off
  Duration isolation_margin = Duration::Seconds(30);   // the scheduler waits this much longer
  uint32_t cross_zone_jobs_max = 1;

  // Time-sharing inside a class (scheduling.md section 3).
  Duration share_half_life = Duration::Minutes(60);
  Duration minimum_run = Duration::Minutes(15);        // safe from one's own class
  Duration opportunistic_run = Duration::Minutes(60);  // the same for who started out of order
  int64_t preemption_tax = 100;  // a slice is at least this many times the cost of a suspension
  Duration assumed_cost = Duration::Seconds(60);  // of a suspension, until one was measured
  // A waiting owner may take from one whose use is at least this many times its own, with what it
  // is about to use counted in.
  int64_t share_margin = 2;
  Duration review = Duration::Seconds(60);  // how often waiting and running are compared again

  // Projects that are not named stand at the top with weight 1.
  std::map<std::string, ProjectPolicy> projects;
  std::vector<QuotaRow> quotas;
  std::map<int32_t, Demotion> demotions = {{20, {10, Duration::Minutes(30)}}};  // by class
  bool operator==(const Policy&) const = default;
};

}  // namespace tide
