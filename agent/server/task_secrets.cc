#include "agent/server/task_secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "agent/server/start_plan.h"
#include "common/base/file.h"
#include "common/spec/secret_name.h"

namespace tide::agent {
namespace {

bool IsRoot() {
  return ::geteuid() == 0;
}

std::string AllSecretsDir(const AgentConfig& config) {
  return config.run_root + "/" + config.name + "/secrets";
}

std::unexpected<Error> Unwritable(const std::string& path, int error) {
  return Fail(ErrorCode::kUnavailable,
              FailErrno("cannot keep the job's secrets in " + path, error).error().message);
}

// Plain processes go through the folder of all to their own; containers are given theirs.
Status MakeFolder(const AgentConfig& config, const Owner& owner, const std::string& folder) {
  const std::string all = AllSecretsDir(config);
  if (!MakeDirs(config.run_root + "/" + config.name, 0711)) {
    return Unwritable(all, errno);
  }
  const mode_t way = IsRoot() && config.runtime == RuntimeKind::kProcess ? 0711 : 0700;
  if ((::mkdir(all.c_str(), way) != 0 && errno != EEXIST) || ::chmod(all.c_str(), way) != 0) {
    return Unwritable(all, errno);
  }
  const mode_t mode = IsRoot() ? 0500 : 0700;
  if (::mkdir(folder.c_str(), mode) != 0 || ::chmod(folder.c_str(), mode) != 0 ||
      (IsRoot() && ::lchown(folder.c_str(), owner.uid, owner.gid) != 0)) {
    return Unwritable(folder, errno);
  }
  return {};
}

Status WriteSecretFile(const Owner& owner, const std::string& path, const std::string& value) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
  if (!fd.valid() || (IsRoot() && ::fchown(fd.get(), owner.uid, owner.gid) != 0)) {
    return Unwritable(path, errno);
  }
  if (const Status written = WriteAll(fd.get(), value); !written) {
    return Fail(ErrorCode::kUnavailable, path + ": " + written.error().message);
  }
  return {};
}

Status WriteAllSecrets(const AgentConfig& config,
                       const std::string& key,
                       const tide::v1::StartTask& start) {
  if (start.spec().secrets().empty()) {
    return {};
  }
  const std::string folder = SecretsDir(config, key);
  RemoveSecrets(config, key);  // of the same start, ordered before this agent's time
  TIDE_ASSIGN(const Owner owner, config.identities->Find(UserOf(start), config.name));
  TIDE_TRY(MakeFolder(config, owner, folder));
  for (const std::string& name : start.spec().secrets()) {
    const auto secret = std::ranges::find(start.secrets(), name, &tide::v1::Secret::name);
    if (secret == start.secrets().end() || !IsSecretName(name)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "secret " + name + " did not come with the order to start");
    }
    TIDE_TRY(WriteSecretFile(owner, folder + "/" + name, secret->value()));
  }
  return {};
}

}  // namespace

std::string SecretsDir(const AgentConfig& config, const std::string& key) {
  return AllSecretsDir(config) + "/" + key;
}

Status TakeSecrets(const AgentConfig& config, const std::string& key, tide::v1::StartTask& start) {
  Status written = WriteAllSecrets(config, key, start);
  start.clear_secrets();
  if (!written) {
    RemoveSecrets(config, key);
  }
  return written;
}

void RemoveSecrets(const AgentConfig& config, const std::string& key) {
  std::error_code ignored;  // most tasks have none
  std::filesystem::remove_all(SecretsDir(config, key), ignored);
}

void RemoveSecretsBut(const AgentConfig& config, const std::set<std::string>& keys) {
  std::error_code ignored;  // there is no such folder before the first secret
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(AllSecretsDir(config), ignored)) {
    left.push_back(entry.path().filename().string());
  }
  for (const std::string& key : left) {
    if (!keys.contains(key)) {
      RemoveSecrets(config, key);
    }
  }
}

}  // namespace tide::agent
