#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "common/certificates/authority.h"
#include "common/certificates/trust.h"

namespace tide::certificates {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr Duration kDay = Duration::Seconds(24 * 3600);

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/tide-certificates-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& file) const { return path_ + "/" + file; }

 private:
  std::string path_;
};

Authority MustInit(const std::string& folder) {
  auto made = Authority::Init(folder, "test", SystemNow());
  REQUIRE(made);
  return *std::move(made);
}

std::string MustRead(const std::string& path) {
  auto text = ReadFile(path);
  REQUIRE(text);
  return *std::move(text);
}

Trust MustTrust(const std::string& folder) {
  auto trust = Trust::FromFolder(folder);
  REQUIRE(trust);
  return *std::move(trust);
}

TEST_CASE("an identity is written as a SPIFFE ID and read again") {
  for (const Identity& identity : {Identity{Role::kScheduler, ""},
                                   Identity{Role::kApi, ""},
                                   Identity{Role::kAgent, "n-01.a"}}) {
    const auto back = IdentityFromSpiffeId(ToSpiffeId(identity));
    REQUIRE(back);
    CHECK(*back == identity);
  }
  for (const char* wrong : {"",
                            "spiffe://other/agent/n1",
                            "spiffe://tide/",
                            "spiffe://tide/root",
                            "spiffe://tide/agent",
                            "spiffe://tide/agent/",
                            "spiffe://tide/agent/a/b",
                            "spiffe://tide/agent/a,URI:spiffe",
                            "spiffe://tide/scheduler/n1",
                            "spiffe://tide/Scheduler"}) {
    INFO(wrong);
    CHECK_FALSE(IdentityFromSpiffeId(wrong));
  }
}

TEST_CASE("what an authority issues is taken by who trusts it, for both sides") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  const Identity agent{Role::kAgent, "n1"};
  const auto issued =
      authority.Issue({agent, {"node-1.example.org", "10.0.0.1"}, 365}, folder / "n1", SystemNow());
  REQUIRE(issued);
  REQUIRE(authority.Issue({{Role::kScheduler, ""}, {}, 365}, folder / "s", SystemNow()));

  const Trust trust = MustTrust(folder / "s");
  for (const Side side : {Side::kClient, Side::kServer}) {
    const auto peer = trust.Verify(MustRead(folder / "n1/identity.pem"), side, SystemNow());
    REQUIRE(peer);
    CHECK(peer->identity == agent);
    CHECK(peer->serial == issued->serial);
    CHECK(peer->ends == issued->ends);
  }
  const auto own = OwnIdentity(folder / "n1", SystemNow());
  REQUIRE(own);
  CHECK(own->identity == agent);
}

TEST_CASE("keys are for their owner alone") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  REQUIRE(authority.Issue({{Role::kApi, ""}, {}, 1}, folder / "api", SystemNow()));
  for (const char* secret : {"ca/ca.key", "api/identity.pem"}) {
    struct stat info{};
    REQUIRE(::stat((folder / secret).c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0600U);
  }
  REQUIRE(::chmod((folder / "api/identity.pem").c_str(), 0640) == 0);
  const auto own = OwnIdentity(folder / "api", SystemNow());
  REQUIRE_FALSE(own);
  CHECK_THAT(own.error().message, Contains("chmod 600 " + (folder / "api/identity.pem")));
}

TEST_CASE("each certificate that is not to be believed is refused with its reason") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  const Authority stranger = MustInit(folder / "other-ca");
  const Request request{{Role::kAgent, "n1"}, {}, 30};
  const Instant now = SystemNow();
  REQUIRE(authority.Issue(request, folder / "n1", now));
  REQUIRE(stranger.Issue(request, folder / "foreign", now));
  const Trust trust = MustTrust(folder / "n1");
  const std::string own = MustRead(folder / "n1/identity.pem");
  const auto why = [&](const std::string& chain, Instant at) {
    const auto peer = trust.Verify(chain, Side::kClient, at);
    REQUIRE_FALSE(peer);
    CHECK(peer.error().code == ErrorCode::kUnauthenticated);
    return peer.error().message;
  };
  CHECK_THAT(why(own, now + kDay * 31), Contains("agent of n1") && Contains("expired at"));
  CHECK_THAT(why(own, now - kDay), Contains("not valid yet") && Contains("clock"));
  REQUIRE(authority.Issue(request, folder / "ahead", now + kDay));
  CHECK_THAT(why(MustRead(folder / "ahead/identity.pem"), now),
             Contains("not valid before") && Contains("clock"));
  CHECK_THAT(why(MustRead(folder / "foreign/identity.pem"), now),
             Contains("not of this cluster's authority"));
  CHECK_THAT(why("", now), Contains("shows no certificate"));
  CHECK_THAT(why(MustRead(folder / "ca/ca.pem"), now), Contains("unsuitable certificate purpose"));
  // Signed by one that the authority has signed, but that is no authority.
  const std::string both = MustRead(folder / "foreign/identity.pem") + own;
  CHECK_THAT(why(both, now), Contains("not of this cluster's authority"));
  CHECK(trust.Verify(own, Side::kClient, now));
}

TEST_CASE("a certificate is revoked by its serial number, and stays in the list") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  const Instant now = SystemNow();
  const auto lost = authority.Issue({{Role::kAgent, "n1"}, {}, 30}, folder / "n1", now);
  const auto kept = authority.Issue({{Role::kAgent, "n2"}, {}, 60}, folder / "n2", now);
  REQUIRE((lost && kept));
  const Trust before = MustTrust(folder / "ca");
  REQUIRE(authority.Revoke(lost->serial, now));
  REQUIRE(authority.Revoke(lost->serial, now));  // twice is once

  const Trust trust = MustTrust(folder / "ca");
  const std::string chain = MustRead(folder / "n1/identity.pem");
  CHECK(before.Verify(chain, Side::kClient, now));
  CHECK(before.Recheck(chain));
  const auto verified = trust.Verify(chain, Side::kClient, now);
  REQUIRE_FALSE(verified);
  CHECK_THAT(verified.error().message, Contains("was revoked"));
  CHECK_FALSE(trust.Recheck(chain));
  CHECK(trust.Verify(MustRead(folder / "n2/identity.pem"), Side::kServer, now));

  const auto listed = authority.List();
  REQUIRE(listed);
  REQUIRE(listed->size() == 2);
  CHECK(listed->front().serial == lost->serial);
  CHECK(listed->front().revoked);
  CHECK_FALSE(listed->back().revoked);

  const auto unknown = authority.Revoke("4242", now);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kNotFound);
  CHECK_FALSE(authority.Revoke("../ca", now));
}

TEST_CASE("an authority is made once, and not where something lies") {
  const Folder folder;
  CHECK_FALSE(Authority::Open(folder / "ca"));
  (void)MustInit(folder / "ca");
  CHECK(Authority::Open(folder / "ca"));
  const auto again = Authority::Init(folder / "ca", "test", SystemNow());
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kConflict);
}

TEST_CASE("requests that cannot be are refused") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  const auto refused = [&](const Request& request) {
    return !authority.Issue(request, folder / "x", SystemNow()) && !fs::exists(folder / "x");
  };
  CHECK(refused({{Role::kAgent, ""}, {}, 30}));
  CHECK(refused({{Role::kAgent, "a b"}, {}, 30}));
  CHECK(refused({{Role::kApi, "n1"}, {}, 30}));
  CHECK(refused({{Role::kApi, ""}, {"a,DNS:b"}, 30}));
  CHECK(refused({{Role::kApi, ""}, {""}, 30}));
  CHECK(refused({{Role::kApi, ""}, {}, 0}));
  CHECK(refused({{Role::kApi, ""}, {}, Authority::kDaysMost + 1}));
}

TEST_CASE("a key of another certificate is noticed at the start") {
  const Folder folder;
  const Authority authority = MustInit(folder / "ca");
  REQUIRE(authority.Issue({{Role::kApi, ""}, {}, 1}, folder / "a", SystemNow()));
  REQUIRE(authority.Issue({{Role::kApi, ""}, {}, 1}, folder / "b", SystemNow()));
  const std::string a = MustRead(folder / "a/identity.pem");
  const std::string b = MustRead(folder / "b/identity.pem");
  const std::string mixed =
      a.substr(0, a.find("-----BEGIN CERTIFICATE")) + b.substr(b.find("-----BEGIN CERTIFICATE"));
  REQUIRE(WriteFileDurably(folder / "a/identity.pem", mixed));
  const auto own = OwnIdentity(folder / "a", SystemNow());
  REQUIRE_FALSE(own);
  CHECK_THAT(own.error().message, Contains("not that of its certificate"));
}

}  // namespace
}  // namespace tide::certificates
