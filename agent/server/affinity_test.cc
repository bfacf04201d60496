// Ranks on the CPUs next to their GPUs: from the node's files to the rank itself.

#include <poll.h>

#include "agent/devices/numa.h"
#include "agent/devices/numa_testing.h"
#include "agent/runtime/supervised_runtime.h"
#include "agent/server/start_plan.h"
#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

using CpusOfTask = std::vector<std::vector<uint32_t>>;

AgentConfig On(const FakeGpuNode& node, const TestDir& dir) {
  AgentConfig config = TestConfig(dir);
  config.proc_dir = node.proc;
  config.sys_dir = node.sys;
  return config;
}

tide::v1::StartTask StartWithGpus(uint32_t ranks, uint32_t gpus) {
  tide::v1::StartTask start = TestStart(1, ranks);
  start.mutable_spec()->set_gpus_per_node(gpus);
  return start;
}

CpusOfTask PlannedCpus(const AgentConfig& config, const tide::v1::StartTask& start) {
  const auto plan = PlanStart(config, start);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  CpusOfTask cpus;
  for (const RankConfig& rank : plan->ranks) {
    cpus.push_back(rank.cpus);
  }
  return cpus;
}

TEST_CASE("affinity: ranks with GPUs are planned onto the CPUs next to them") {
  const std::vector<uint32_t> allowed = AllowedCpus();
  if (allowed.size() < 2) {
    WARN("skipped: this needs two CPUs");
    return;
  }
  const TestDir dir;
  const FakeGpuNode node;
  node.AddGpu("0000:3B:00.0", 1, std::to_string(allowed[0]) + "\n");
  node.AddGpu("0000:CA:00.0", 0, std::to_string(allowed[1]) + ",8191\n");
  AgentConfig config = On(node, dir);
  const std::vector<uint32_t> near = {allowed[0]};
  const std::vector<uint32_t> far = {allowed[1]};
  const std::vector<uint32_t> both = {allowed[0], allowed[1]};
  CHECK(PlannedCpus(config, StartWithGpus(2, 2)) == CpusOfTask{near, far});
  CHECK(PlannedCpus(config, StartWithGpus(1, 2)) == CpusOfTask{both});
  CHECK(PlannedCpus(config, StartWithGpus(2, 1)) == CpusOfTask{near, near});
  CHECK(PlannedCpus(config, StartWithGpus(2, 0)) == CpusOfTask{{}, {}});
  tide::v1::StartTask second = StartWithGpus(1, 1);
  second.set_devices(0b10);
  CHECK(PlannedCpus(config, second) == CpusOfTask{far});

  // In a container it is the device file that counts.
  config.runtime = RuntimeKind::kOci;
  config.cdi_dirs.clear();
  config.dev_dir = dir.File("dev");
  REQUIRE(MakeDirs(config.dev_dir, 0755));
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"}) {
    REQUIRE(::symlink("/dev/null", (config.dev_dir + "/" + name).c_str()) == 0);
  }
  CHECK(PlannedCpus(config, second) == CpusOfTask{near});

  config.numa_affinity = false;
  CHECK(PlannedCpus(config, second) == CpusOfTask{{}});
}

TEST_CASE("affinity: a node that does not say what is near starts its tasks all the same") {
  const TestDir dir;
  const FakeGpuNode node;
  const AgentConfig config = On(node, dir);
  const tide::v1::StartTask start = StartWithGpus(1, 1);
  CHECK(PlannedCpus(config, start) == CpusOfTask{{}});  // no driver
  for (const char* list : {"", "nonsense", "8191"}) {
    CAPTURE(list);
    node.AddGpu("0000:3b:00.0", 0, list);
    CHECK(PlannedCpus(config, start) == CpusOfTask{{}});
  }
  node.AddGpu("0000:3b:00.0", 0, "0-8191");
  CHECK(PlannedCpus(config, start) == CpusOfTask{AllowedCpus()});
  CHECK(PlannedCpus(config, StartWithGpus(1, 2)) == CpusOfTask{{}});  // the second is not there
}

TEST_CASE("affinity: a real rank runs on the CPU next to its GPU") {
  const std::vector<uint32_t> allowed = AllowedCpus();
  REQUIRE_FALSE(allowed.empty());
  const std::string cpu = std::to_string(allowed.front());
  const TestDir dir;
  const FakeGpuNode node;
  node.AddGpu("0000:3b:00.0", 0, cpu + "\n");
  AgentConfig config = On(node, dir);
  config.init_path = TIDE_INIT_PATH;
  tide::v1::StartTask start = StartWithGpus(1, 1);
  start.mutable_spec()->clear_command();
  for (const char* word : {"grep", "Cpus_allowed_list", "/proc/self/status"}) {
    start.mutable_spec()->add_command(word);
  }
  auto plan = PlanStart(config, start);
  REQUIRE(plan);
  plan->contact.clear();  // nobody renews a lease here
  const auto runtime = SupervisedRuntime::Open(config.state_dir);
  REQUIRE(runtime);
  REQUIRE((*runtime)->Start(*plan));
  REQUIRE(Eventually([&] {
    const auto status = (*runtime)->Query(plan->key);
    return status && status->finished;
  }));
  CHECK(ReadFile(config.state_dir + "/tasks/" + plan->key + "/logs/rank-00000.log") ==
        "Cpus_allowed_list:\t" + cpu + "\n");
  CHECK((*runtime)->Remove(plan->key, false));
}

}  // namespace
}  // namespace tide::agent
