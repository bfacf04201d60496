#include "sim/chaos/plan.h"

#include <array>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/health/fault_rules.h"

namespace tide::chaos {
namespace {

// Off in a third of the seeds, else between a tenth of `most` and `most`.
uint32_t Draw(Prng& prng, uint32_t most) {
  if (prng.Below(3) == 0) {
    return 0;
  }
  return most / 10 + static_cast<uint32_t>(prng.Below(most));
}

// Rules by which other nodes are needed to prove a fault gone.
std::shared_ptr<const health::FaultRules> FabricRules() {
  auto rules = health::FaultRulesFromText(
      "version: 1\nrules:\n"
      "  - { kind: xid, code: 79, meaning: m, action: drain_now, covers: [fabric] }\n",
      "rules");
  TIDE_CHECK(rules.has_value(), "these rules can be read");
  return *std::move(rules);
}

// The real ratios, shortened, so that every timeout strikes within a short run.
Policy ShortPolicy() {
  Policy policy;
  policy.stop_grace = Duration::Seconds(3);
  policy.fault_grace = Duration::Seconds(2);
  policy.start_timeout = Duration::Seconds(30);
  policy.leave_grace = Duration::Seconds(15);
  policy.suspend_notice_max = Duration::Seconds(20);
  policy.probation = Duration::Seconds(10);
  policy.isolation_timeout = Duration::Seconds(60);
  policy.witness_timeout = Duration::Seconds(12);
  policy.isolation_margin =
      Duration::Seconds(12);  // a rank that was killed acts no more, however long it hangs
  policy.minimum_run = Duration::Seconds(20);
  policy.assumed_cost = Duration::Seconds(5);
  policy.preemption_tax = 4;
  policy.review = Duration::Seconds(10);
  policy.faults.test_every = Duration::Seconds(45);
  return policy;
}

}  // namespace

std::string_view MutationName(Mutation mutation) {
  static constexpr std::array<std::string_view, kMutationCount> kNames = {"none",
                                                                          "double-allocation",
                                                                          "partial-gang",
                                                                          "lost-ack",
                                                                          "lost-row",
                                                                          "early-isolation",
                                                                          "no-isolation",
                                                                          "old-term-writes",
                                                                          "old-term-obeyed",
                                                                          "old-epoch-believed",
                                                                          "no-journal",
                                                                          "uncommitted-resume",
                                                                          "checkpoint-lost",
                                                                          "no-fence",
                                                                          "no-stop",
                                                                          "false-witness",
                                                                          "rule-assumed",
                                                                          "archive-lost",
                                                                          "rows-unproved",
                                                                          "copy-admitted",
                                                                          "stranger-obeyed"};
  return kNames.at(static_cast<size_t>(mutation));
}

Plan DrawPlan(Prng& prng) {
  Plan plan;
  plan.schedulers = static_cast<uint32_t>(1 + prng.Below(3));
  plan.nodes = static_cast<uint32_t>(2 + prng.Below(6));
  plan.jobs_max = static_cast<uint32_t>(4 + prng.Below(12));
  plan.fault_phase = Duration::Seconds(static_cast<int64_t>(100 + prng.Below(300)));
  plan.policy = ShortPolicy();
  if (plan.nodes % 2 == 0) {
    plan.policy.faults.rules = FabricRules();
    plan.policy.faults.return_after = Duration::Seconds(5);
  }
  FaultPlan& faults = plan.faults;
  faults.agent_crash = Draw(prng, 30'000);
  faults.agent_pause = Draw(prng, 20'000);
  faults.reboot = Draw(prng, 5'000);
  faults.supervisor_death = Draw(prng, 6'000);
  faults.rank_failure = Draw(prng, 6'000);
  faults.rank_hang = Draw(prng, 4'000);
  faults.scheduler_crash = Draw(prng, 30'000);
  faults.scheduler_pause = Draw(prng, 20'000);
  faults.stream_break = Draw(prng, 40'000);
  faults.partition = Draw(prng, 40'000);
  faults.xid = Draw(prng, 4'000);
  faults.user = 100'000 + Draw(prng, 300'000);
  faults.agent_crash_point = Draw(prng, 10'000);
  faults.scheduler_crash_point = Draw(prng, 4'000);
  faults.commit_failure = Draw(prng, 2'000);
  faults.cut_after_pause = Draw(prng, 500'000);
  faults.journal_failure = Draw(prng, 5'000);
  faults.launch_failure = Draw(prng, 20'000);
  faults.slow_message = Draw(prng, 50'000);
  faults.lost_message = Draw(prng, 100'000);
  faults.twice_message = Draw(prng, 50'000);
  faults.stubborn_rank = Draw(prng, 300'000);
  faults.stuck_rank = Draw(prng, 50'000);
  faults.clock_step = Draw(prng, 20'000);
  faults.slow_commit = Draw(prng, 2'000);
  faults.old_agent = Draw(prng, 300'000);
  faults.row_flip = Draw(prng, 15'000);
  faults.agent_copy = Draw(prng, 20'000);
  faults.store_swap = Draw(prng, 10'000);
  faults.decision_later = Draw(prng, 700'000);
  if (prng.Below(6) == 0) {
    plan.policy.witness_timeout = Duration();
  }
  if (prng.Below(2) == 0) {  // else it keeps all jobs
    plan.policy.finished_max = static_cast<uint32_t>(1 + prng.Below(4));
    plan.policy.keep_finished = Duration::Seconds(static_cast<int64_t>(20 + prng.Below(200)));
    plan.policy.keep_incidents = plan.policy.keep_finished;
  }
  return plan;
}

}  // namespace tide::chaos
