#pragma once
// The folder in which `tide dev` keeps everything, and the cluster laid out in it.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/dev/children.h"
#include "cli/dev/profile_claim.h"
#include "common/base/file.h"

namespace tide::cli {

struct DevOptions {
  std::string state_dir;  // empty = a temporary one, gone at the end
  int nodes = 4;
  int schedulers = 1;  // one leads, the others stand by
  int port = 7070;
  bool once = false;
  bool no_demo = false;
  std::string runtime = "auto";
  std::vector<std::string> agent_flags;      // passed on to each agent
  std::vector<std::string> scheduler_flags;  // passed on to each scheduler
  std::vector<std::string> api_flags;        // passed on to the API server
  std::vector<std::string> mount_roots;      // beside where it was started
};

struct DevNode {
  std::string name;  // "a-n1"
  std::string zone;
  std::string leaf;
  std::string kmsg;   // the file that stands for its kernel log
  std::string sysfs;  // the folder that stands for its /sys
};

// As whom jobs run where `tide dev` runs as root: the one who called sudo, else an account of
// nobody.
struct Person {
  uint32_t uid = 200'000;
  uint32_t gid = 200'000;
  std::string home;
};
[[nodiscard]] Person PersonOfJobs();

// Owns the lock on the folder: two `tide dev` never share one.
class Workspace {
 public:
  // Makes or takes over the folder; a temporary one left by a killed `tide dev` is cleared, its
  // tasks ended. Errors: in use (with the pid), of another version, not ours, not writable.
  [[nodiscard]] static Result<Workspace> Open(const DevOptions& options);

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] const std::string& bin() const { return bin_; }
  [[nodiscard]] const std::string& sdk() const { return sdk_; }
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] const std::vector<DevNode>& nodes() const { return nodes_; }
  [[nodiscard]] std::string server() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // Whether every `tide` finds this cluster by itself; else it does so with profile_path().
  [[nodiscard]] const ProfileClaim& profile() const { return profile_; }
  [[nodiscard]] std::string profile_path() const { return root_ + "/profile.yaml"; }
  [[nodiscard]] bool resumed() const { return resumed_; }

  // Schedulers, agents and API as children to start, in order.
  [[nodiscard]] std::vector<ChildSpec> Daemons() const;
  // After the daemons' end: removes what only they used, and a temporary folder.
  //   clean: the agents have ended their tasks. Else that is done here, first.
  //   Errors: tasks that do not end; then their folders stay, for the next `tide dev` to try.
  [[nodiscard]] Status Discard(bool clean);

 private:
  Workspace() = default;
  [[nodiscard]] Status Lock();
  [[nodiscard]] Status CheckVersion();
  [[nodiscard]] Status Prepare(const DevOptions& options);
  [[nodiscard]] Status CopyForJobs() const;
  [[nodiscard]] Status CleanLeftovers() const;
  [[nodiscard]] Status MakeStore() const;
  [[nodiscard]] Status LetTideFindIt();
  [[nodiscard]] std::string RunRoot() const;
  [[nodiscard]] ChildSpec AgentOf(size_t index, const std::string& schedulers) const;
  [[nodiscard]] std::string SchedulerSocket(int number) const;
  [[nodiscard]] std::vector<std::string> StoreFlags() const;
  [[nodiscard]] std::string TokenFile() const;
  [[nodiscard]] std::string SecretKeyFile() const;

  std::string root_;
  std::string bin_;
  std::string sdk_;
  std::string web_;
  std::string token_;
  std::string runtime_;
  std::vector<std::string> agent_flags_;
  std::vector<std::string> scheduler_flags_;
  std::vector<std::string> api_flags_;
  std::vector<std::string> mount_roots_;
  std::vector<DevNode> nodes_;
  int port_ = 0;
  int schedulers_ = 1;
  bool temporary_ = false;
  bool resumed_ = false;
  Fd lock_;
  ProfileClaim profile_;
};

}  // namespace tide::cli
