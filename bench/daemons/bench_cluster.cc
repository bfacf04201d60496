#include "bench/daemons/bench_cluster.h"

#include <unistd.h>

#include <filesystem>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/certificates/authority.h"

namespace tide::bench {
namespace {

namespace fs = std::filesystem;
using rpc::Role;
using rpc::Security;

constexpr const char* kSecret = "tide-bench-cluster-token";
bool with_tls = true;

// In memory: ten thousand certificates are made, and none is kept.
class Folder {
 public:
  Folder() {
    std::string name = "/dev/shm/tide-bench-XXXXXX";
    TIDE_CHECK(::mkdtemp(name.data()) != nullptr, "a folder in memory can be made");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class Cluster {
 public:
  static Cluster& Get() {
    static Cluster cluster;
    return cluster;
  }

  [[nodiscard]] std::string TokenFile() const { return folder_.File("token"); }
  std::string Issue(const certificates::Identity& identity, const std::string& name) const {
    const auto authority = certificates::Authority::Open(folder_.File("ca"));
    TIDE_CHECK(authority && authority->Issue({identity, {}, 1}, folder_.File(name), SystemNow()),
               "a certificate can be issued");
    return folder_.File(name);
  }

 private:
  Cluster() {
    TIDE_CHECK(WriteFileDurably(TokenFile(), kSecret).has_value(), "the token is written");
    TIDE_CHECK(
        certificates::Authority::Init(folder_.File("ca"), "tide-bench", SystemNow()).has_value(),
        "an authority can be made");
  }

  Folder folder_;
};

Security MustRead(const std::string& folder) {
  auto security = Security::Tls(folder, rpc::Reload::kNever);
  TIDE_CHECK(security.has_value(), "a certificate that was just issued is taken");
  return *std::move(security);
}

}  // namespace

void MeasureWithoutTls() {
  with_tls = false;
}

std::vector<std::string> SchedulerSecurityFlags() {
  if (with_tls) {
    return {"--tls", Cluster::Get().Issue({Role::kScheduler, ""}, "scheduler")};
  }
  return {"--insecure-plaintext", "--cluster-token-file", Cluster::Get().TokenFile()};
}

const Security& ApiSecurity() {
  static const Security kSecurity = with_tls
                                        ? MustRead(Cluster::Get().Issue({Role::kApi, ""}, "api"))
                                        : Security(rpc::ClusterToken(kSecret));
  return kSecurity;
}

Security AgentSecurity(const std::string& node) {
  if (!with_tls) {
    return rpc::ClusterToken(kSecret);
  }
  const std::string folder = Cluster::Get().Issue({Role::kAgent, node}, node);
  Security security = MustRead(folder);
  fs::remove_all(folder);
  return security;
}

}  // namespace tide::bench
