#include "agent/images/reference.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

using Source = ImageReference::Source;

const std::string kHex(64, 'a');
const std::string kDigest = "sha256:" + kHex;

TEST_CASE("names of images are read as everywhere") {
  const std::vector<std::pair<std::string, ImageReference>> cases = {
      {"ubuntu", {Source::kRegistry, "docker.io/library/ubuntu", "latest", ""}},
      {"ubuntu:22.04", {Source::kRegistry, "docker.io/library/ubuntu", "22.04", ""}},
      {"pytorch/pytorch:2.1", {Source::kRegistry, "docker.io/pytorch/pytorch", "2.1", ""}},
      {"reg.example/a/b", {Source::kRegistry, "reg.example/a/b", "latest", ""}},
      {"reg:5000/b:X-1_2.3", {Source::kRegistry, "reg:5000/b", "X-1_2.3", ""}},
      {"localhost/b", {Source::kRegistry, "localhost/b", "latest", ""}},
      {"docker://reg.example/b:1", {Source::kRegistry, "reg.example/b", "1", ""}},
      {"reg.example/b@" + kDigest, {Source::kRegistry, "reg.example/b", "", kDigest}},
      {"reg.example/b:1@" + kDigest, {Source::kRegistry, "reg.example/b", "", kDigest}},
      {"a/b_c-d.e", {Source::kRegistry, "docker.io/a/b_c-d.e", "latest", ""}},
      {"oci:/data/images", {Source::kLayout, "/data/images", "", ""}},
      {"oci:/data/images:train", {Source::kLayout, "/data/images", "train", ""}},
      {"oci:/data/images@" + kDigest, {Source::kLayout, "/data/images", "", kDigest}},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    const auto read = ParseImageReference(text, "docker.io");
    REQUIRE(read);
    CHECK(*read == expected);
    const auto again = ParseImageReference(read->Text(), "other.example");
    REQUIRE(again);
    CHECK(*again == expected);
  }
}

TEST_CASE("a site's own registry stands before names without one") {
  CHECK(ParseImageReference("train:1", "reg.example:5000")->name == "reg.example:5000/train");
  CHECK(ParseImageReference("train:1", "reg.example/mirror")->name == "reg.example/mirror/train");
}

TEST_CASE("what is no name is refused before any program gets it") {
  for (const std::string& text : std::vector<std::string>{
           "",
           "--privileged",
           "-a/b",
           "reg.example/-a",
           "A/b",
           "a//b",
           "a/",
           "/a",
           "a b",
           "a:b:c/d",
           "reg.example/a:",
           "reg.example/a:.x",
           "reg.example/a@sha256:12",
           "reg.example/a@md5:" + kHex,
           "reg.example/a@sha256:" + std::string(64, 'G'),
           "reg.example:port/a",
           "-reg.example/a",
           "oci:relative",
           "oci:/a:b:c",
           "oci:/a@x",
           "dir:/a",
           "docker-archive:///a",
           "https://reg.example/a",
           std::string(300, 'a'),
           "a\n/b",
           "a/..:x",
       }) {
    INFO(text);
    const auto read = ParseImageReference(text, "docker.io");
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kInvalidArgument);
    CHECK_THAT(read.error().message, Catch::StartsWith("image \"" + text + "\": "));
  }
}

}  // namespace
}  // namespace tide::agent
