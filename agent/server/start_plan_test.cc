#include "agent/server/start_plan.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

TEST_CASE("a rank's environment is complete") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir, "n2");
  config.env = {{"NCCL_IB_HCA", "mlx5_0"}, {"LANG", "C"}};
  config.sdk_dir = "/opt/sdk";
  tide::v1::StartTask start = TestStart(3, 2);
  start.set_task(1);
  start.set_master_port(20007);
  start.set_topology_json(R"({"version":1})");
  start.mutable_spec()->set_gpus_per_node(2);
  start.mutable_spec()->set_count(5);
  start.set_array_job(4);
  start.set_array_index(3);
  start.set_checkpoint_step(1200);
  start.set_resume_step(0);
  auto& env_asked = *start.mutable_spec()->mutable_env();
  env_asked["SEED"] = "4";
  env_asked["RANK"] = "999";
  env_asked["PYTHONPATH"] = "/mine";
  env_asked["NCCL_IB_HCA"] = "mlx5_1";
  const auto plan = PlanStart(config, start);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  CHECK(plan->key == "7.2.1");
  REQUIRE(plan->ranks.size() == 2);
  CHECK(plan->ranks[1].rank == 3);
  CHECK(plan->ranks[1].local_rank == 1);
  CHECK(plan->ranks[1].argv == std::vector<std::string>{"true"});
  const std::string run = dir.File("run/n2/7.2.1");
  const std::map<std::string, std::string> expected = {
      {"RANK", "3"},
      {"WORLD_SIZE", "6"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"NODE_RANK", "1"},
      {"NNODES", "3"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "20007"},
      {"CUDA_VISIBLE_DEVICES", "0,1"},
      {"TIDE_JOB_ID", "j-7"},
      {"TIDE_ARRAY_JOB", "j-4"},
      {"TIDE_ARRAY_INDEX", "3"},
      {"TIDE_ARRAY_COUNT", "5"},
      {"TIDE_ATTEMPT", "2"},
      {"TIDE_START", "j-7.2"},
      {"TIDE_NODE", "n2"},
      {"TIDE_CHECKPOINT_DIR", dir.File("checkpoints/j-7")},
      {"TIDE_CHECKPOINT_STEP", "1200"},
      {"TIDE_RESUME_STEP", "0"},
      {"TIDE_PAGE", run + "/page-1"},
      {"TIDE_SOCKET", run + "/agent.sock"},
      {"TIDE_TOPOLOGY", R"({"version":1})"},
      {"NCCL_IB_HCA", "mlx5_1"},  // the job's word against the cluster's profile
      {"LANG", "C.UTF-8"},
      {"SEED", "4"},
      {"PYTHONPATH", "/mine:/opt/sdk/python"},
      {"HOME", dir.File("state/scratch/7.2.1")},
      {"TMPDIR", dir.File("state/scratch/7.2.1")},
  };
  for (const auto& [key, value] : expected) {
    INFO(key);
    REQUIRE(plan->ranks[1].env.contains(key));
    CHECK(plan->ranks[1].env.at(key) == value);
  }
  CHECK(plan->ranks[1].env.contains("PATH"));
}

TEST_CASE("the supervisor of a gang's task reads a lease of its own, that of another the node's") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir, "n2");
  const auto alone = PlanStart(config, TestStart(1));
  const auto gang = PlanStart(config, TestStart(2));
  REQUIRE((alone && gang));
  CHECK(alone->contact == ContactPath(config));
  CHECK(gang->contact == TaskContactPath(config, "7.2.0"));
  CHECK(gang->contact != alone->contact);
}

TEST_CASE("a task is found by its key, and by no other text") {
  const TaskId id{7, 2, 4'294'967'295};
  CHECK(ParseTaskKey(TaskKey(id)).value() == id);
  for (const char* key :
       {"", "7", "7.2", "7.2.", "7.2.0 ", "07.2.0", "7.2.-1", "7.2.0.1", "a.b.c", "7,2,0"}) {
    CAPTURE(key);
    CHECK_FALSE(ParseTaskKey(key));
  }
  CHECK_FALSE(ParseTaskKey("7.2.4294967296"));
}

TEST_CASE("two jobs of one number have two checkpoint folders") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  tide::v1::StartTask start = TestStart();
  start.set_submitted_at(0x18a3f0c2b1d4e5f6);
  const auto first = PlanStart(config, start);
  REQUIRE(first);
  CHECK(first->ranks[0].env.at("TIDE_CHECKPOINT_DIR") ==
        dir.File("checkpoints/j-7-18a3f0c2b1d4e5f6"));
  start.set_submitted_at(0x18a3f0c2b1d4e5f7);
  const auto second = PlanStart(config, start);
  REQUIRE(second);
  CHECK(second->ranks[0].env.at("TIDE_CHECKPOINT_DIR") !=
        first->ranks[0].env.at("TIDE_CHECKPOINT_DIR"));
}

TEST_CASE("in a container the run folder has its fixed place") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  config.runtime = RuntimeKind::kOci;
  config.sdk_dir = "/opt/sdk";
  const auto plan = PlanStart(config, TestStart());
  REQUIRE(plan);
  const auto& env = plan->ranks[0].env;
  CHECK(env.at("TIDE_PAGE") == "/run/tide/page-0");
  CHECK(env.at("TIDE_SOCKET") == "/run/tide/agent.sock");
  CHECK(env.at("TMPDIR") == "/tmp");
  CHECK(env.at("CUDA_VISIBLE_DEVICES").empty());
  std::set<std::string> targets;
  for (const MountConfig& mount : plan->mounts) {
    targets.insert(mount.target);
  }
  CHECK(plan->masks ==
        std::vector<std::string>{dir.File("state"), dir.File("checkpoints"), dir.File("run")});
  CHECK(targets == std::set<std::string>{dir.File("checkpoints/j-7"), "/opt/tide/sdk"});
}

std::string WhyNot(const AgentConfig& config, const tide::v1::StartTask& start, ErrorCode code) {
  const auto plan = PlanStart(config, start);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == code);
  return plan.error().message;
}

TEST_CASE("secrets are named in the plan, not told") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  tide::v1::StartTask start = TestStart();
  CHECK_FALSE(PlanStart(config, start)->ranks[0].env.contains("TIDE_SECRETS_DIR"));
  start.mutable_spec()->add_secrets("wandb-api-key");
  for (const RuntimeKind kind : {RuntimeKind::kProcess, RuntimeKind::kOci}) {
    config.runtime = kind;
    const auto plan = PlanStart(config, start);
    REQUIRE(plan);
    CHECK(plan->secrets == std::map<std::string, std::string>{{"WANDB_API_KEY", "wandb-api-key"}});
    CHECK(plan->secrets_dir == dir.File("run/n1/secrets/7.2.0"));
    CHECK(plan->ranks[0].env.at("TIDE_SECRETS_DIR") ==
          (kind == RuntimeKind::kOci ? "/run/secrets" : plan->secrets_dir));
    CHECK_FALSE(plan->ranks[0].env.contains("WANDB_API_KEY"));
  }
}

TEST_CASE("what is missing is said in words") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  using Catch::Matchers::Contains;
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->set_workdir(dir.File("nowhere"));
  CHECK_THAT(WhyNot(config, start, ErrorCode::kSystem),
             Contains("workdir") && Contains(dir.File("nowhere")) && Contains("n1"));

  start = TestStart();
  start.mutable_spec()->add_mounts()->set_source(dir.File("data"));
  CHECK_THAT(WhyNot(config, start, ErrorCode::kSystem),
             Contains("mount") && Contains(dir.File("data")));

  start = TestStart();
  start.clear_peers();
  (void)WhyNot(config, start, ErrorCode::kInvalidArgument);
  start = TestStart();
  start.mutable_spec()->clear_command();
  (void)WhyNot(config, start, ErrorCode::kInvalidArgument);
}

TEST_CASE("an image brings its root and its environment, which others go before") {
  TestDir dir;
  AgentConfig config = TestConfig(dir);
  config.env = {{"NCCL_DEBUG", "INFO"}};
  tide::v1::StartTask start = TestStart();
  start.set_user("alice");
  (*start.mutable_spec()->mutable_env())["B"] = "of the job";
  const Image image{.digest = "sha256:12",
                    .rootfs = "/images/12/rootfs",
                    .env = {{"PATH", "/opt/conda/bin:/bin"},
                            {"NCCL_DEBUG", "WARN"},
                            {"A", "of the image"},
                            {"B", "of the image"},
                            {"HOME", "/root"},
                            {"USER", "root"},
                            {"RANK", "9"}}};
  const auto plan = PlanStart(config, start, &image);
  REQUIRE(plan);
  CHECK(plan->image == "sha256:12");
  CHECK(plan->rootfs == "/images/12/rootfs");
  const auto& env = plan->ranks.front().env;
  CHECK(env.at("PATH") == "/opt/conda/bin:/bin");
  CHECK(env.at("NCCL_DEBUG") == "INFO");
  CHECK(env.at("A") == "of the image");
  CHECK(env.at("B") == "of the job");
  CHECK(env.at("HOME") == plan->scratch);
  CHECK(env.at("USER") == "alice");
  CHECK(env.at("RANK") == "0");
}

TEST_CASE("an image is in use while a task's folder names it") {
  TestDir dir;
  const AgentConfig config = TestConfig(dir);
  CHECK(ImagesInUse(config.state_dir) == ImagesOfTasks());
  TaskConfig task;
  task.key = "7.1.0";
  task.uid = 1000;
  task.image = "sha256:12";
  task.rootfs = "/images/12/rootfs";
  task.ranks.push_back({.rank = 0, .local_rank = 0, .env = {}, .argv = {"true"}, .cpus = {}});
  const std::string folder = config.state_dir + "/tasks/7.1.0";
  REQUIRE(MakeDirs(folder));
  CHECK(ImagesInUse(config.state_dir) == ImagesOfTasks());  // only its logs are left
  std::ofstream(folder + "/task.json") << *TaskConfigToJson(task);
  CHECK(ImagesInUse(config.state_dir) == ImagesOfTasks{{"sha256:12", {1000}}});
  std::ofstream(folder + "/task.json") << "{";
  CHECK_FALSE(ImagesInUse(config.state_dir));  // nobody knows: nothing is removed
}

TEST_CASE("a folder is opened with the rights of the job's user, not the agent's") {
  if (::geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  REQUIRE(::mkdir(dir.File("secret").c_str(), 0700) == 0);
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->set_workdir(dir.File("secret"));
  (void)WhyNot(config, start, ErrorCode::kSystem);
  start = TestStart();
  start.mutable_spec()->set_checkpoint_dir(dir.File("secret/ckpt"));
  (void)WhyNot(config, start, ErrorCode::kSystem);
  start = TestStart();
  start.mutable_spec()->add_mounts()->set_source(dir.File("secret"));
  (void)WhyNot(config, start, ErrorCode::kSystem);
}

TEST_CASE("a mount is the file that was looked at, through any links") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  REQUIRE(::mkdir(dir.File("data").c_str(), 0755) == 0);
  REQUIRE(::symlink(dir.File("data").c_str(), dir.File("link").c_str()) == 0);
  struct stat data{};
  REQUIRE(::stat(dir.File("data").c_str(), &data) == 0);
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->set_workdir(dir.File("link"));
  start.mutable_spec()->add_mounts()->set_source(dir.File("link"));
  start.mutable_spec()->mutable_mounts(0)->set_target("/data");
  start.mutable_spec()->mutable_mounts(0)->set_read_only(true);
  const auto plan = PlanStart(config, start);
  REQUIRE(plan);
  REQUIRE(plan->mounts.size() == 3);
  CHECK_FALSE(plan->mounts[0].read_only);
  CHECK(plan->mounts[0].inode == data.st_ino);
  CHECK(plan->mounts[2].inode == data.st_ino);
  CHECK(plan->mounts[2].device == data.st_dev);
  CHECK(plan->mounts[2].source == dir.File("data"));
  CHECK(plan->mounts[0].target == dir.File("link"));
}

TEST_CASE("a job has nothing of the node but below the roots, and nothing of Tide's") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  REQUIRE(MakeDirs(dir.File("data"), 0777));
  for (const std::string& path : {std::string("/"), std::string("/proc"), dir.File("state")}) {
    tide::v1::StartTask start = TestStart();
    start.mutable_spec()->set_workdir(path);
    CHECK_THAT(WhyNot(config, start, ErrorCode::kPermissionDenied),
               Catch::StartsWith("workdir " + path));
    start = TestStart();
    start.mutable_spec()->add_mounts()->set_source(path);
    (void)WhyNot(config, start, ErrorCode::kPermissionDenied);
  }
  tide::v1::StartTask start = TestStart();
  tide::v1::Mount* mount = start.mutable_spec()->add_mounts();
  mount->set_source(dir.File("data"));
  mount->set_read_only(true);
  for (const std::string& target : {dir.path(), dir.File("state"), dir.File("state/scratch")}) {
    mount->set_target(target);
    CHECK_THAT(WhyNot(config, start, ErrorCode::kPermissionDenied), Catch::Contains("would cover"));
  }
}

TEST_CASE("Tide's folders are masked wherever a mount shows them") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  config.masked = {dir.File("hidden")};
  REQUIRE(MakeDirs(dir.File("hidden")));
  tide::v1::StartTask start = TestStart();
  tide::v1::Mount* mount = start.mutable_spec()->add_mounts();
  mount->set_source(dir.path());
  mount->set_target("/data");
  mount->set_read_only(true);
  const auto plan = PlanStart(config, start);
  REQUIRE(plan);
  for (const std::string& mask : {dir.File("hidden"),
                                  std::string("/data/hidden"),
                                  std::string("/data/state"),
                                  std::string("/data/checkpoints")}) {
    CAPTURE(mask);
    CHECK(std::ranges::count(plan->masks, mask) == 1);
  }
}

TEST_CASE("a port in use is the node's fault and only matters to task 0") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  const Fd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  void* generic = &address;
  socklen_t size = sizeof address;
  REQUIRE(::bind(taken.get(), static_cast<sockaddr*>(generic), size) == 0);
  REQUIRE(::listen(taken.get(), 1) == 0);
  REQUIRE(::getsockname(taken.get(), static_cast<sockaddr*>(generic), &size) == 0);
  tide::v1::StartTask start = TestStart(2);
  start.set_master_port(ntohs(address.sin_port));
  CHECK(WhyNot(config, start, ErrorCode::kUnavailable).find("in use") != std::string::npos);
  start.set_task(1);
  CHECK(PlanStart(config, start));
}

// A container on a node with two GPUs of a made-up vendor.
AgentConfig WithCdi(const TestDir& dir) {
  AgentConfig config = TestConfig(dir, "n2");
  config.runtime = RuntimeKind::kOci;
  config.runtime_path = "/usr/sbin/runc";
  config.cdi_dirs = {dir.File("cdi")};
  config.cdi_kind = "v.com/gpu";
  config.dev_dir = dir.File("dev");
  REQUIRE(MakeDirs(dir.File("cdi"), 0755));
  REQUIRE(WriteFileDurably(dir.File("v.sock"), ""));
  const auto device = [](const std::string& name, const std::string& host) {
    return R"({"name": ")" + name + R"(", "containerEdits": {"deviceNodes": [{"path": "/dev/v)" +
           name + R"(", "hostPath": ")" + host + R"("}]}})";
  };
  REQUIRE(WriteFileDurably(
      dir.File("cdi/v.yaml"),
      R"({"cdiVersion": "0.6.0", "kind": "v.com/gpu", "devices": [)" + device("0", "/dev/zero") +
          ", " + device("1", "/dev/null") + ", " + device("8", "/dev/none") +
          R"(], "containerEdits": {"env": ["V_VISIBLE=void", "SEED=0", "NCCL_NET=v"],
      "mounts": [{"hostPath": "/usr/lib/libv.so", "containerPath": "/usr/lib/libv.so"},
                 {"hostPath": ")" +
          dir.File("v.sock") + R"(", "containerPath": "/run/v.sock"}]}})"));
  config.env = {{"NCCL_NET", "IB"}};
  return config;
}

TEST_CASE("a container gets the devices that its task was given, and what their vendor says") {
  const TestDir dir;
  const AgentConfig config = WithCdi(dir);
  tide::v1::StartTask start = TestStart(1, 1);
  start.mutable_spec()->set_gpus_per_node(1);
  start.set_devices(0b10);
  (*start.mutable_spec()->mutable_env())["SEED"] = "4";
  const auto plan = PlanStart(config, start);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  CHECK(plan->devices == std::vector<DeviceNode>{{"/dev/null", "/dev/v1", "rwm", 0}});
  const auto& env = plan->ranks[0].env;
  CHECK(env.at("V_VISIBLE") == "void");
  CHECK(env.at("SEED") == "4");                  // the job's word against the vendor's
  CHECK(env.at("NCCL_NET") == "IB");             // the operator's, too
  CHECK(env.at("CUDA_VISIBLE_DEVICES") == "0");  // of those that it can open
  const auto mounted = [&](const char* target) {
    return std::ranges::count(plan->mounts, target, &MountConfig::target);
  };
  CHECK(mounted("/run/v.sock") == 1);
  CHECK(mounted("/usr/lib/libv.so") == 0);  // the node's root has it
}

TEST_CASE("a GPU that the vendor does not know is this node's fault") {
  const TestDir dir;
  const AgentConfig config = WithCdi(dir);
  tide::v1::StartTask start = TestStart(1, 1);
  start.mutable_spec()->set_gpus_per_node(3);
  const auto plan = PlanStart(config, start);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(plan.error().message, Catch::Contains("v.com/gpu=2"));
}

TEST_CASE("a GPU whose files are gone is this node's fault") {
  const TestDir dir;
  AgentConfig config = WithCdi(dir);
  tide::v1::StartTask start = TestStart(1, 1);
  start.mutable_spec()->set_gpus_per_node(1);
  const auto fault = [&] {
    const auto plan = PlanStart(config, start);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == ErrorCode::kUnavailable);
    return plan.error().message;
  };
  start.set_devices(1U << 8U);
  CHECK_THAT(fault(), Catch::Contains("/dev/none is no device on n2"));
  start.set_devices(1);
  REQUIRE(::unlink(dir.File("v.sock").c_str()) == 0);
  CHECK_THAT(fault(), Catch::Contains("v.sock is not there"));
  config.cdi_dirs.clear();
  REQUIRE(MakeDirs(config.dev_dir, 0755));
  for (const char* name : {"nvidiactl", "nvidia0"}) {
    REQUIRE(::symlink("/dev/null", (config.dev_dir + "/" + name).c_str()) == 0);
  }
  CHECK_THAT(fault(), Catch::Contains("nvidia-uvm is no device"));
}

TEST_CASE("without a vendor's files the devices are found by their names") {
  const TestDir dir;
  AgentConfig config = WithCdi(dir);
  config.cdi_dirs = {dir.File("none")};
  REQUIRE(MakeDirs(config.dev_dir + "/infiniband", 0755));
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "infiniband/uverbs0"}) {
    REQUIRE(::symlink("/dev/null", (config.dev_dir + "/" + name).c_str()) == 0);
  }
  tide::v1::StartTask start = TestStart(1, 1);
  const auto devices = [&] {
    const auto plan = PlanStart(config, start);
    REQUIRE(plan);
    std::vector<std::string> paths;
    for (const DeviceNode& node : plan->devices) {
      paths.push_back(node.path);
    }
    return std::pair(paths, plan->ranks[0].env.at("CUDA_VISIBLE_DEVICES"));
  };
  using Paths = std::vector<std::string>;
  CHECK(devices() == std::pair(Paths(), std::string()));  // it asked for none
  start.mutable_spec()->set_gpus_per_node(1);
  start.set_devices(0b10);
  CHECK(devices() ==
        std::pair(
            Paths{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/infiniband/uverbs0"},
            std::string("0")));
  config.dev_dir = dir.File("no driver");
  CHECK(devices() == std::pair(Paths(), std::string("1")));
  config.runtime = RuntimeKind::kProcess;
  config.dev_dir = dir.File("dev");
  CHECK(devices() == std::pair(Paths(), std::string("1")));  // sees all, by the node's numbers
}

}  // namespace
}  // namespace tide::agent
