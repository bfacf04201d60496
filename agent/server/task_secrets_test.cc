#include "agent/server/task_secrets.h"

#include <sys/stat.h>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

tide::v1::StartTask StartWith(const std::string& name, const std::string& value) {
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->add_secrets(name);
  tide::v1::Secret* secret = start.add_secrets();
  secret->set_name(name);
  secret->set_value(value);
  return start;
}

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

uid_t OwnerOf(const std::string& path) {
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_uid;
}

TEST_CASE("secrets become files of the job's user, and leave the order") {
  const TestDir dir;
  AgentConfig config = TestConfig(dir);
  config.runtime = GENERATE(RuntimeKind::kProcess, RuntimeKind::kOci);
  const std::string value("a\0b\n", 4);
  tide::v1::StartTask start = StartWith("hf-token", value);
  REQUIRE(TakeSecrets(config, "7.2.0", start));
  CHECK(start.secrets_size() == 0);
  CHECK(start.spec().secrets_size() == 1);
  const std::string folder = SecretsDir(config, "7.2.0");
  CHECK(folder == dir.File("run/n1/secrets/7.2.0"));
  CHECK(ReadFile(folder + "/hf-token") == value);
  CHECK(ModeOf(folder + "/hf-token") == 0400);
  CHECK(OwnerOf(folder + "/hf-token") == config.identities->Find({}, "")->uid);
  CHECK(OwnerOf(folder) == config.identities->Find({}, "")->uid);
  CHECK((ModeOf(folder) & 0077U) == 0);
  const bool plain_of_root = config.runtime == RuntimeKind::kProcess && ::geteuid() == 0;
  CHECK(ModeOf(dir.File("run/n1/secrets")) == (plain_of_root ? 0711U : 0700U));

  start = StartWith("hf-token", "changed");  // of an agent that was started anew
  REQUIRE(TakeSecrets(config, "7.2.0", start));
  CHECK(ReadFile(folder + "/hf-token") == "changed");
  RemoveSecrets(config, "7.2.0");
  CHECK_FALSE(std::filesystem::exists(folder));
  RemoveSecrets(config, "7.2.0");
}

TEST_CASE("a job without secrets has no folder for them") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  tide::v1::StartTask start = TestStart();
  REQUIRE(TakeSecrets(config, "7.2.0", start));
  CHECK_FALSE(std::filesystem::exists(dir.File("run/n1/secrets")));
}

TEST_CASE("an order that names a secret and does not bring it is refused") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  tide::v1::StartTask start = StartWith("hf-token", "hunter2");
  start.mutable_spec()->add_secrets("other");
  const Status refused = TakeSecrets(config, "7.2.0", start);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message == "secret other did not come with the order to start");
  CHECK(start.secrets_size() == 0);
  CHECK_FALSE(std::filesystem::exists(SecretsDir(config, "7.2.0")));
  start = StartWith("../../x", "hunter2");
  CHECK_FALSE(TakeSecrets(config, "7.2.0", start));
  CHECK_FALSE(std::filesystem::exists(dir.File("run/n1/x")));
}

TEST_CASE("a node that cannot keep secrets is at fault, not the job") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  REQUIRE(MakeDirs(dir.File("run/n1"), 0711));
  REQUIRE(WriteFileDurably(dir.File("run/n1/secrets"), "in the way"));
  tide::v1::StartTask start = StartWith("hf-token", "hunter2");
  const Status refused = TakeSecrets(config, "7.2.0", start);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().message.find("hunter2") == std::string::npos);
}

TEST_CASE("what an earlier agent left is removed, but for tasks that go on") {
  const TestDir dir;
  const AgentConfig config = TestConfig(dir);
  RemoveSecretsBut(config, {});
  for (const char* key : {"7.2.0", "8.1.0"}) {
    tide::v1::StartTask start = StartWith("hf-token", "hunter2");
    REQUIRE(TakeSecrets(config, key, start));
  }
  RemoveSecretsBut(config, {"8.1.0"});
  CHECK_FALSE(std::filesystem::exists(SecretsDir(config, "7.2.0")));
  CHECK(std::filesystem::exists(SecretsDir(config, "8.1.0") + "/hf-token"));
}

}  // namespace
}  // namespace tide::agent
