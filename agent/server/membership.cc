#include "agent/server/membership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/cluster_id.h"
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

// The file says its own number, which that of a copy is not.
Result<std::string> FolderId(const std::string& folder) {
  const std::string path = folder + "/id";
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info{};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return FailErrno("cannot open " + path, errno);
  }
  TIDE_ASSIGN(std::string id, ReadLine(path));
  const std::string own = "-" + std::to_string(info.st_ino);
  if (id.empty()) {
    id = RandomHex(kIdBytes) + own;
    TIDE_TRY(WriteAll(file.get(), id + "\n"));
    if (::fsync(file.get()) != 0) {
      return FailErrno("cannot write " + path, errno);
    }
  }
  if (!id.ends_with(own)) {
    return Fail(ErrorCode::kConflict,
                folder +
                    " is a copy of another agent's state folder, whose tasks are not this one's: "
                    "name an empty folder with --state; where the other is gone for good, remove " +
                    path);
  }
  return id;
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
  TIDE_ASSIGN(membership.state_id_, FolderId(folder));
  membership.machine_id_ = ReadLine("/etc/machine-id").value_or("");
  return membership;
}

Status Membership::Check(const std::string& cluster) {
  if (!MayDealWith(cluster_, cluster)) {
    const std::string other =
        cluster.empty() ? "names none: is it of an older release? Start one that does"
                        : "is of cluster " + cluster +
                              ": was it started on another store? To have the agent join that "
                              "one, start it once with --join";
    return Fail(ErrorCode::kConflict,
                "this agent belongs to cluster " + cluster_ + ", the scheduler " + other);
  }
  if (cluster_.empty() && !cluster.empty()) {
    TIDE_TRY(WriteFileDurably(state_dir_ + "/cluster", cluster + "\n"));
    cluster_ = cluster;
  }
  return {};
}

}  // namespace tide::agent
