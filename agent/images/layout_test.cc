#include "agent/images/layout.h"

#include <sys/utsname.h>

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

using Catch::Contains;

const std::string kA = "sha256:" + std::string(64, 'a');
const std::string kB = "sha256:" + std::string(64, 'b');

std::string Entry(const std::string& digest, const std::string& platform) {
  return R"({"digest":")" + digest + R"(","size":3)" +
         (platform.empty() ? ""
                           : R"(,"platform":{"os":"linux","architecture":")" + platform + "\"}") +
         "}";
}

TEST_CASE("a manifest names its configuration and layers") {
  const auto read = ParseManifest(R"({"schemaVersion":2,"config":)" + Entry(kA, "") +
                                  R"(,"layers":[)" + Entry(kB, "") + "]}");
  REQUIRE(read);
  CHECK_FALSE(read->is_index);
  CHECK(read->config.digest == kA);
  REQUIRE(read->layers.size() == 1);
  CHECK(read->layers.front().size == 3);
}

TEST_CASE("of an index this machine's platform is chosen") {
  utsname name{};
  REQUIRE(::uname(&name) == 0);
  const std::string mine =
      std::string(static_cast<const char*>(name.machine)) == "x86_64" ? "amd64" : "arm64";
  const auto index = [](const std::string& entries) {
    return *ParseManifest(R"({"manifests":[)" + entries + "]}");
  };
  CHECK(ChoosePlatform(index(Entry(kA, "s390x") + "," + Entry(kB, mine)))->digest == kB);
  CHECK(ChoosePlatform(index(Entry(kA, "")))->digest == kA);
  const auto none = ChoosePlatform(index(Entry(kA, "s390x") + "," + Entry(kB, "ppc64le")));
  REQUIRE_FALSE(none);
  CHECK(none.error().message ==
        "there is none for linux/" + mine + ", only linux/s390x, linux/ppc64le");
}

TEST_CASE("what is no manifest is refused") {
  for (const std::string& text :
       std::vector<std::string>{"",
                                "[]",
                                "{}",
                                R"({"manifests":{}})" + std::string("x"),
                                R"({"manifests":[{"digest":"../../etc/passwd","size":1}]})",
                                R"({"manifests":[{"digest":")" + kA + R"("}]})",
                                R"({"config":)" + Entry(kA, "") + "}"}) {
    INFO(text);
    const auto read = ParseManifest(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kCorrupt);
  }
}

TEST_CASE("an image says what it wants in the environment") {
  const auto env = ParseImageEnv(R"({"config":{"Env":["PATH=/opt/bin:/bin","A=b=c","=x","N"]}})");
  REQUIRE(env);
  CHECK(*env == std::map<std::string, std::string>{{"PATH", "/opt/bin:/bin"}, {"A", "b=c"}});
  CHECK(ParseImageEnv("{}")->empty());
  CHECK(ParseImageEnv(R"({"config":null})")->empty());
  CHECK(ParseImageEnv(R"({"config":{"Env":null}})")->empty());
  CHECK_FALSE(ParseImageEnv("x"));
  CHECK_FALSE(ParseImageEnv(R"({"config":{"Env":[1]}})"));
}

}  // namespace
}  // namespace tide::agent
