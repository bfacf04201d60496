// A scheduler and an agent with a small cluster in every interesting state, for the browser test:
//   api_demo_upstream FOLDER
// Prints "ready" when it can be asked; ends when its standard input does.

#include <cmath>
#include <cstdio>
#include <limits>

#include "api/testing/fake_upstream.h"
#include "common/base/time.h"

namespace tide::api::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

v1::Job MakeJob(uint64_t id, const std::string& name, v1::JobState state, int priority) {
  const int64_t now = SystemNow().unix_nanos();
  v1::Job job;
  job.set_id(id);
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->set_project("default");
  job.mutable_spec()->set_image("host");
  job.mutable_spec()->set_group("default");
  job.mutable_spec()->set_zone("single");
  for (const char* word : {"python3", "train.py"}) {
    job.mutable_spec()->add_command(word);
  }
  job.mutable_spec()->set_nodes(2);
  job.mutable_spec()->set_ranks_per_node(1);
  job.mutable_spec()->set_priority(priority);
  job.set_user("alice");
  job.set_state(state);
  job.set_submitted_at(now - 900 * kSecond);
  job.set_state_since(now - 300 * kSecond);
  job.set_step(-1);
  job.set_total_steps(-1);
  job.set_loss(std::numeric_limits<double>::quiet_NaN());
  return job;
}

v1::Attempt MakeAttempt(uint64_t epoch, int64_t placed_at, const std::string& reason) {
  v1::Attempt attempt;
  attempt.set_epoch(epoch);
  attempt.set_placed_at(placed_at);
  attempt.set_running_at(placed_at + 2 * kSecond);
  attempt.set_stop_step(-1);
  attempt.set_start_reason(reason);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Task* task = attempt.add_tasks();
    task->set_index(i);
    task->set_node("a-l01-n0" + std::to_string(i + 1));
    task->set_state(v1::TASK_STATE_RUNNING);
    task->set_started_at(placed_at);
  }
  return attempt;
}

v1::Job ResumedJob() {
  const int64_t now = SystemNow().unix_nanos();
  v1::Job job = MakeJob(3, "llm-7b-pretrain", v1::JOB_STATE_RUNNING, 10);
  v1::Attempt first = MakeAttempt(1, now - 900 * kSecond, "first");
  first.set_notice_at(now - 420 * kSecond);
  first.set_parked_at(now - 419 * kSecond);
  first.set_saved_at(now - 418 * kSecond);
  first.set_released_at(now - 417 * kSecond);
  first.set_stop_step(1840);
  first.set_end_reason("preempted");
  first.set_end_detail("gave way to j-2 (high)");
  for (v1::Task& task : *first.mutable_tasks()) {
    task.set_state(v1::TASK_STATE_EXITED);
    task.mutable_exit()->set_reason(v1::EXIT_REASON_SUSPENDED);
    task.mutable_exit()->set_code(85);
    task.mutable_exit()->set_rank(-1);
  }
  *job.add_attempts() = first;
  *job.add_attempts() = MakeAttempt(2, now - 300 * kSecond, "resumed");
  job.mutable_checkpoint()->set_step(1840);
  job.mutable_checkpoint()->set_id("step-1840");
  job.mutable_checkpoint()->set_at(now - 418 * kSecond);
  job.mutable_checkpoint()->set_epoch(1);
  job.set_suspensions(1);
  job.set_step(2610);
  job.set_total_steps(5000);
  job.set_loss(0.9132);
  return job;
}

std::vector<v1::Job> MakeJobs() {
  v1::Job failed = MakeJob(1, "eval-digits", v1::JOB_STATE_FINISHED, 0);
  failed.set_outcome(v1::OUTCOME_FAILED);
  failed.set_exit_code(1);
  failed.set_detail("rank 0 exited with code 1");
  failed.set_finished_at(failed.state_since());
  v1::Job done = MakeJob(2, "sweep-12", v1::JOB_STATE_FINISHED, 30);
  done.set_outcome(v1::OUTCOME_SUCCEEDED);
  done.set_finished_at(done.state_since());
  done.set_step(400);
  done.set_total_steps(400);
  done.set_loss(0.041);
  v1::Job queued = MakeJob(4, "vision-large", v1::JOB_STATE_QUEUED, 10);
  queued.mutable_spec()->set_nodes(12);
  v1::Reason* reason = queued.add_reasons();
  reason->set_code("not_enough_nodes");
  reason->set_message("wants 12 nodes in one zone; zone A has 3 free of 8");
  reason->set_remedy("ask for 3 nodes, or wait for j-3");
  v1::StartEstimate& estimate = *queued.mutable_estimate();
  estimate.set_earliest(queued.state_since() + Duration::Minutes(10 * 60).nanos());
  estimate.set_likely(queued.state_since() + Duration::Minutes(11 * 60).nanos());
  estimate.set_latest(queued.state_since() + Duration::Minutes(14 * 60).nanos());
  estimate.set_basis("from 1 max_runtime and 2 past run times");
  v1::Job held = MakeJob(5, "ablation-c", v1::JOB_STATE_HELD, 5);
  held.set_detail("suspended by alice");
  v1::Job saving = MakeJob(6, "rl-agent", v1::JOB_STATE_SAVING, -1);
  saving.set_detail("saving for j-4");
  saving.set_step(77);
  return {failed, done, ResumedJob(), queued, held, saving};
}

v1::Node MakeNode(const std::string& zone, int leaf, int index, const std::string& endpoint) {
  v1::Node node;
  const std::string letter = zone == "A" ? "a" : "b";
  node.set_name(letter + "-l0" + std::to_string(leaf) + "-n0" + std::to_string(index));
  node.set_group("default");
  node.set_zone(zone);
  node.set_leaf(letter + "-l0" + std::to_string(leaf));
  node.set_state(v1::NODE_STATE_READY);
  node.mutable_capacity()->set_cpus(64);
  node.mutable_capacity()->set_gpus(8);
  node.mutable_capacity()->set_gpu_model("A100");
  node.set_connected(true);
  node.set_endpoint(endpoint);
  node.set_state_since(SystemNow().unix_nanos() - 3600 * kSecond);
  return node;
}

std::vector<v1::Node> MakeNodes(const std::string& endpoint) {
  std::vector<v1::Node> nodes;
  uint32_t id = 0;
  for (const char* zone : {"A", "B"}) {
    for (int leaf = 1; leaf <= 2; ++leaf) {
      for (int index = 1; index <= 4; ++index) {
        v1::Node node = MakeNode(zone, leaf, index, endpoint);
        node.set_id(++id);
        if (node.leaf() == "a-l01") {
          node.set_job(index <= 2 ? 3 : 6);
        } else if (node.name() == "b-l01-n02") {
          node.set_state(v1::NODE_STATE_QUARANTINED);
          node.set_reason("Xid 79 on 0000:3b:00.0");
          node.set_actor("tide");
          node.set_faults(1);
        } else if (node.name() == "b-l02-n03") {
          node.set_state(v1::NODE_STATE_DRAINING);
          node.set_reason("new firmware");
          node.set_actor("bob");
        } else if (node.name() == "b-l02-n04") {
          node.set_state(v1::NODE_STATE_LOST);
          node.set_connected(false);
          node.set_reason("no word for 12 s");
          node.set_actor("tide");
        }
        nodes.push_back(node);
      }
    }
  }
  return nodes;
}

v1::Incident MakeIncident() {
  const int64_t now = SystemNow().unix_nanos();
  v1::Incident incident;
  incident.set_id(1);
  incident.set_node("b-l01-n02");
  incident.set_kind(v1::FAULT_KIND_XID);
  incident.set_code(79);
  incident.set_device("0000:3b:00.0");
  incident.set_text("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.");
  incident.set_meaning("the GPU no longer answers on the PCI bus");
  incident.set_action("drain_now");
  incident.set_first_seen_at(now - 200 * kSecond);
  incident.set_last_seen_at(now - 190 * kSecond);
  incident.set_recorded_at(now - 199 * kSecond);
  incident.set_count(3);
  return incident;
}

void Serve(const std::string& folder) {
  FakeUpstream upstream(folder);
  upstream.scheduler.Publish(MakeJobs(), MakeNodes(upstream.agent_address()), {MakeIncident()});
  for (uint32_t task = 0; task < 2; ++task) {
    upstream.agent.Append({3, 1, task, task}, "step 1840 loss 1.204\nsaved step-1840\n");
    upstream.agent.Close({3, 1, task, task});
    upstream.agent.Append({3, 2, task, task},
                          "resumed from step-1840\nstep 2600 loss 0.915\nstep 2610 loss 0.913\n");
  }
  std::printf("ready\n");
  std::fflush(stdout);
  v1::Job job = ResumedJob();
  // Each line on standard input moves the training on by ten steps.
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') {
      job.set_step(job.step() + 10);
      upstream.scheduler.Publish({job});
      upstream.agent.Append({3, 2, 0, 0}, "step " + std::to_string(job.step()) + "\n");
    }
  }
}

}  // namespace
}  // namespace tide::api::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: api_demo_upstream FOLDER\n");
    return 2;
  }
  tide::api::testing::Serve(argv[1]);
  return 0;
}
