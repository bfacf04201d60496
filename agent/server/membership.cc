#include "agent/server/membership.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/file.h"
#include "common/people/token_text.h"

namespace tide::agent {
namespace {

constexpr size_t kIdMax = 256;
constexpr size_t kIdBytes = 8;

// The first line of a small file, "" where there is none.
Result<std::string> ReadLine(const std::string& path) {
  auto text = ReadFile(path, kIdMax);
  if (!text) {
    return text.error().code == ErrorCode::kNotFound
               ? Result<std::string>("")
               : Result<std::string>(std::unexpected(std::move(text.error())));
  }
  return text->substr(0, text->find('\n'));
}

}  // namespace

Result<Membership> Membership::Open(std::string state_dir, bool join_anew) {
  Membership membership;
  membership.state_dir_ = std::move(state_dir);
  const std::string folder = membership.state_dir_;
  if (join_anew && ::unlink((folder + "/cluster").c_str()) != 0 && errno != ENOENT) {
    return FailErrno("cannot remove " + folder + "/cluster", errno);
  }
  TIDE_ASSIGN(membership.cluster_, ReadLine(folder + "/cluster"));
  const std::string id_file = folder + "/id";
  TIDE_ASSIGN(std::string id, ReadLine(id_file));
  if (id.empty()) {
    id = RandomHex(kIdBytes);
    TIDE_TRY(WriteFileDurably(id_file, id + "\n"));
  }
  // A copy of the folder holds the same text in another file.
  struct stat info{};
  if (::stat(id_file.c_str(), &info) != 0) {
    return FailErrno("cannot look at " + id_file, errno);
  }
  membership.state_id_ = id + "-" + std::to_string(info.st_ino);
  membership.machine_id_ = ReadLine("/etc/machine-id").value_or("");
  return membership;
}

Status Membership::Check(const std::string& cluster) {
  if (cluster.empty() || cluster == cluster_) {
    return {};
  }
  if (!cluster_.empty()) {
    return Fail(ErrorCode::kConflict,
                "this agent belongs to cluster " + cluster_ + ", the scheduler is of cluster " +
                    cluster +
                    ": was it started on another store? To have the agent join that one, "
                    "start it once with --join");
  }
  TIDE_TRY(WriteFileDurably(state_dir_ + "/cluster", cluster + "\n"));
  cluster_ = cluster;
  return {};
}

}  // namespace tide::agent
