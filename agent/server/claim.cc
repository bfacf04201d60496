#include "agent/server/claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace tide::agent {
namespace {

constexpr size_t kPidMax = 64;

//   what: "the state folder /x", for people.
Result<Fd> Claim(const std::string& path, const std::string& what) {
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    return FailErrno("cannot open " + path, errno);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string pid = ReadFile(path, kPidMax).value_or("");
    return Fail(ErrorCode::kConflict,
                what + " is another agent's, which runs" +
                    (pid.empty() ? "" : " (pid " + pid + ")") +
                    ": end that one first, or give this one another --name and --state");
  }
  if (::ftruncate(lock.get(), 0) != 0) {
    return FailErrno("cannot write " + path, errno);
  }
  TIDE_TRY(WriteAll(lock.get(), std::to_string(::getpid())));
  return lock;
}

}  // namespace

Result<std::vector<Fd>> ClaimNode(const AgentConfig& config) {
  const std::string run_folder = config.run_root + "/" + config.name;
  TIDE_TRY(MakeDirs(config.state_dir, 0711));
  TIDE_TRY(MakeDirs(run_folder, 0711));
  std::vector<Fd> held;
  TIDE_ASSIGN(Fd state, Claim(config.state_dir + "/lock", "the state folder " + config.state_dir));
  held.push_back(std::move(state));
  TIDE_ASSIGN(Fd name, Claim(run_folder + "/lock", "the name " + config.name + " on this machine"));
  held.push_back(std::move(name));
  return held;
}

}  // namespace tide::agent
