#pragma once
// The numbers of scheduling policy, and who may have how much. Durations are loop time.
// docs/guide/policy.md says what they mean to people, policy_text.h reads them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/fabric/boundary.h"
#include "common/health/fault_rules.h"
#include "common/spec/job_spec.h"

namespace tide {

// A node of the tree of projects. Its share of what its parent has goes by weight.
struct ProjectPolicy {
  std::string parent;  // "" = at the top
  int64_t weight = 1;
  std::optional<bool> exec = {};  // may people run commands in its tasks; nothing: as in its parent
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

// What automation may do about faults.
struct FaultPolicy {
  uint32_t breaker_percent = 2;  // of the nodes, taken out of service in `breaker_window`
  uint32_t breaker_least = 3;    // but so many in any case: of a small cluster 2 % are none
  Duration breaker_window = Duration::Minutes(10);  // at most kWithdrawalsKept
  uint32_t leaf_nodes = 3;  // that lose their links within `leaf_window`: it is the leaf's fault
  Duration leaf_window = Duration::Seconds(60);
  Duration leaf_wait = Duration::Seconds(5);  // a lost link waits for others of its leaf
  // A node that automation took out is validated after so long, to come back; nothing = never.
  Duration return_after = Duration::Minutes(1);
  Duration test_every = Duration::Minutes(24 * 60);  // an idle node by all validators; 0 = never
  // A job whose ranks stand still begins again from its checkpoint after so long; 0 = never.
  Duration stall_restart = Duration::Minutes(30);
  // Time until that where a fault was seen on one of its nodes when it stopped; 0 = never.
  Duration stall_restart_faulty = Duration::Seconds(60);
  std::shared_ptr<const health::FaultRules> rules = health::BuiltInFaultRules();
  bool operator==(const FaultPolicy&) const = default;
};

struct Policy {
  Duration stop_grace = Duration::Seconds(10);    // SIGTERM to SIGKILL
  Duration fault_grace = Duration::Seconds(5);    // for survivors of a fault
  Duration evidence_wait = Duration::Seconds(2);  // for a fault that explains a failure
  // From a task's launch until all its ranks run. Its agent keeps it.
  Duration start_timeout = Duration::Minutes(10);
  Duration leave_grace = Duration::Minutes(2);  // first task saved and left, to the last one
  Duration suspend_notice_max = Duration::Minutes(10);
  Duration probation = Duration::Minutes(30);
  Duration isolation_timeout = Duration::Minutes(10);  // agents stop their tasks when cut off
  // As long tasks of gangs go on without a witness (docs/adr/0005); nothing = up to the isolation.
  Duration witness_timeout = Duration::Seconds(60);
  Duration isolation_margin = Duration::Seconds(30);  // the scheduler waits this much longer
  uint32_t cross_zone_jobs_max = 1;
  std::vector<Boundary> boundaries = {};  // FabricSpec::boundaries

  // Time-sharing inside a class (docs/adr/0013).
  Duration share_half_life = Duration::Minutes(24 * 60);
  // Safe from one's own class; and the wait after which a job asks others of its class to leave.
  Duration minimum_run = Duration::Minutes(15);
  // A waiting job takes its turn on the nodes of one that was slowed down less: by so many times.
  int64_t turn_ratio = 2;
  int64_t preemption_tax = 100;  // a slice is at least this many times the cost of a suspension
  Duration assumed_cost = Duration::Seconds(60);  // of a suspension, until one was measured
  Duration review = Duration::Seconds(60);  // how often waiting and running are compared again

  // Finished jobs are kept for so long, and about so many of them; the oldest go to the archive.
  // Beyond that some are kept for jobs that are to run after them (retention.h).
  Duration keep_finished = Duration::Minutes(90 * 24 * 60);
  uint32_t finished_max = 100'000;
  // Faults are kept for so long after they were over; at least kIncidentsKept.
  Duration keep_incidents = Duration::Minutes(90 * 24 * 60);

  FaultPolicy faults = {};

  // Projects that are not named stand at the top with weight 1.
  std::map<std::string, ProjectPolicy> projects;
  std::vector<QuotaRow> quotas;
  std::map<int32_t, Demotion> demotions = {{20, {10, Duration::Minutes(30)}}};  // by class
  // By name; their jobs are held. Set by the server, in no policy file.
  std::set<std::string> removed_users = {};
  bool operator==(const Policy&) const = default;
};

// Returns the job's own timeout, or the cluster's.
[[nodiscard]] inline Duration StartTimeoutOf(const JobSpec& spec, const Policy& policy) {
  return spec.start_timeout.nanos() > 0 ? spec.start_timeout : policy.start_timeout;
}

// Returns projects in whose tasks nobody may run commands, by what they or the nearest above them
// say. Where none says anything, it is allowed.
[[nodiscard]] std::vector<std::string> ProjectsWithoutExec(const Policy& policy);

}  // namespace tide
