#include "cli/dev/profile_claim.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/profile.h"

using namespace tide;
using namespace tide::cli;

namespace {

// A folder with a profile in it, gone after the test.
class Place {
 public:
  Place() {
    std::string name = std::filesystem::temp_directory_path() / "tide-claim-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    profile = folder_ + "/profile.yaml";
  }
  ~Place() { std::filesystem::remove_all(folder_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] ProfileClaim Take(const std::string& server) const {
    auto claim = ProfileClaim::Take(profile, server, "t");
    REQUIRE(claim);
    return std::move(*claim);
  }
  // What `tide` finds by itself.
  [[nodiscard]] std::string Found() const { return ResolveServer({"", "", "", {profile}})->url; }
  std::string profile;

 private:
  std::string folder_;
};

}  // namespace

TEST_CASE("the first cluster keeps the profile until its end") {
  const Place place;
  ProfileClaim first = place.Take("http://first:1");
  REQUIRE(first.ours());
  ProfileClaim second = place.Take("http://second:1");
  CHECK_FALSE(second.ours());
  CHECK(second.other_server() == "http://first:1");
  second.Release();
  CHECK(place.Found() == "http://first:1");
  first.Release();
  CHECK_FALSE(std::filesystem::exists(place.profile));
  CHECK(place.Take("http://third:1").ours());
}

TEST_CASE("a profile that was left behind is taken, whatever is in it") {
  const Place place;
  REQUIRE(WriteFileDurably(place.profile, "server: http://dead:1\ntoken: " + std::string(99, 'x')));
  const ProfileClaim claim = place.Take("http://new:1");
  CHECK(claim.ours());
  CHECK(ReadFile(place.profile).value() == "server: http://new:1\ntoken: t\n");
}

TEST_CASE("a profile that somebody put in the place of ours stays") {
  const Place place;
  ProfileClaim claim = place.Take("http://dev:1");
  REQUIRE(WriteFileDurably(place.profile, "server: http://mine:1\n"));
  claim.Release();
  CHECK(place.Found() == "http://mine:1");
}

TEST_CASE("a token does not go into a file that others can open") {
  const Place place;
  SECTION("readable") {
    REQUIRE(WriteFileDurably(place.profile, "", 0644));
  }
  SECTION("a link") {
    std::filesystem::create_symlink("/dev/null", place.profile);
  }
  SECTION("no file at all") {
    std::filesystem::create_directory(place.profile);
  }
  CHECK_FALSE(ProfileClaim::Take(place.profile, "http://a:1", "t"));
}
