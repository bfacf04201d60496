#include "agent/runtime/task_config.h"

#include <catch2/catch.hpp>

#include "agent/runtime/oci_bundle.h"
#include "agent/runtime/task_folder.h"
#include "agent/runtime/task_status.h"

namespace tide::agent {
namespace {

TaskConfig Full() {
  TaskConfig config;
  config.key = "12.3.4";
  config.folder = "/state/tasks/12.3.4";
  config.runtime = RuntimeKind::kOci;
  config.ranks = {{.rank = 5,
                   .local_rank = 1,
                   .env = {{"A", "b=\"c\"\n"}},
                   .argv = {"x", "y z"},
                   .cpus = {0, 8191}}};
  config.workdir = "/w";
  config.uid = 1000;
  config.gid = 1001;
  config.mounts = {{"/a", "/b", true}};
  config.devices = {{"/dev/null", "/dev/nothing", "rw", 0600}};
  config.groups = {44, 110};
  config.run_dir = "/run/tide-agent/12.3.4";
  config.contact = "/run/tide-agent/contact";
  config.secrets = {{"HF_TOKEN", "hf-token"}};
  config.secrets_dir = "/run/tide-agent/secrets/12.3.4";
  config.scratch = "/s";
  config.memory_bytes = 1ULL << 40U;
  config.shm_bytes = 7;
  config.cpu_millis = 2500;
  config.pids = 99;
  config.kept_ports = {20000, 20999, 20007};
  config.log_bytes = 1 << 20;
  config.init_path = "/bin/tide-init";
  config.runtime_path = "/usr/sbin/runc";
  config.hostname = "h";
  config.failure_grace_ms = 1;
  config.term_grace_ms = 2;
  return config;
}

TEST_CASE("task config: JSON keeps every field") {
  const std::string text = TaskConfigToJson(Full()).value();
  const TaskConfig back = TaskConfigFromJson(text).value();
  CHECK(TaskConfigToJson(back).value() == text);
  CHECK(back.ranks[0].env.at("A") == "b=\"c\"\n");
  CHECK(back.ranks[0].cpus == std::vector<uint32_t>{0, 8191});
  CHECK(back.memory_bytes == 1ULL << 40U);
  CHECK(back.kept_ports == KeptPorts{20000, 20999, 20007});
  CHECK(back.secrets == Full().secrets);
  CHECK(back.secrets_dir == Full().secrets_dir);
  CHECK(back.runtime == RuntimeKind::kOci);
  CHECK(TaskConfigFromJson("{}").error().code == ErrorCode::kCorrupt);
  CHECK(TaskConfigFromJson("[").error().code == ErrorCode::kCorrupt);
  TaskConfig bad = Full();
  bad.ranks[0].argv[1] = "\xff";
  CHECK(TaskConfigToJson(bad).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("task config: what an older agent wrote is read") {
  TaskConfig older = Full();
  older.ranks[0].cpus.clear();
  std::string text = TaskConfigToJson(older).value();
  const size_t begin = text.find("\"cpus\": [],");
  REQUIRE(begin != std::string::npos);
  text.erase(begin, std::string("\"cpus\": [],").size());
  const auto back = TaskConfigFromJson(text);
  INFO((back ? "" : back.error().message));
  REQUIRE(back);
  CHECK(back->ranks[0].cpus.empty());
  CHECK(back->ranks[0].argv == Full().ranks[0].argv);
}

TEST_CASE("task config: what cannot run is refused with its reason") {
  CHECK(Validate(Full()));
  const auto message = [](void (*change)(TaskConfig&)) {
    TaskConfig config = Full();
    change(config);
    const Status status = Validate(config);
    return status ? std::string() : status.error().message;
  };
  CHECK_THAT(message([](TaskConfig& c) { c.key = "../x"; }), Catch::Contains("the key must be"));
  CHECK_THAT(message([](TaskConfig& c) { c.ranks.clear(); }), Catch::Contains("no ranks"));
  CHECK_THAT(message([](TaskConfig& c) { c.ranks[0].argv.clear(); }),
             Catch::Contains("rank 5 has no command"));
  CHECK_THAT(message([](TaskConfig& c) { c.image = "pytorch"; }),
             Catch::Contains("no folder of its own"));
  CHECK_THAT(message([](TaskConfig& c) { c.runtime_path = ""; }), Catch::Contains("install runc"));
  CHECK_THAT(message([](TaskConfig& c) { c.devices[0].path = "/etc/passwd"; }),
             Catch::Contains("is not below /dev"));
  CHECK_THAT(message([](TaskConfig& c) { c.mounts[0].target = "b"; }),
             Catch::Contains("is not absolute"));
}

TEST_CASE("task status: JSON keeps what the socket carries") {
  TaskStatus status;
  status.started = true;
  status.released = true;
  status.error = "broken \xff text";
  status.finished_at = 5;
  status.ranks = {{.rank = 3,
                   .local_rank = 1,
                   .pid = 44,
                   .exited = true,
                   .code = 0,
                   .signal = 9,
                   .oom = true,
                   .core = true}};
  const std::string text = TaskStatusToJson(status);
  CHECK(text.find('\n') == std::string::npos);
  TaskStatus back = TaskStatusFromJson(text).value();
  CHECK(back.error.starts_with("broken "));
  back.error = status.error;
  CHECK(back == status);
  CHECK(TaskStatusFromJson("nonsense").error().code == ErrorCode::kCorrupt);
}

TEST_CASE("task folder: tags differ by folder and fit the runtime's names") {
  CHECK(TaskTag("1.2.3", "/a") != TaskTag("1.2.3", "/b"));
  CHECK(TaskTag("1.2.3", "/a").starts_with("1.2.3-"));
  CHECK(TaskCgroup("1.2.3", "/a") == "/tide/" + TaskTag("1.2.3", "/a"));
  CHECK(LogName(12) == "rank-00012");
}

TEST_CASE("oci bundle: a device that is not there is named") {
  TaskConfig config = Full();
  config.init_path = "/proc/self/exe";
  config.run_dir.clear();
  config.secrets_dir.clear();
  config.scratch.clear();
  config.mounts.clear();
  CHECK(OciConfig(config, "root", {}));
  config.devices = {{"/dev/nvidia-none", "/dev/nvidia0"}};
  CHECK_THAT(OciConfig(config, "root", {}).error().message,
             Catch::Contains("/dev/nvidia-none is not a device of this node"));
}

}  // namespace
}  // namespace tide::agent
