#include "sdk/native/folder.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

CheckpointFolder Found(int64_t step, int64_t attempt, bool has_manifest) {
  return {.step = step,
          .attempt = attempt,
          .path = DirectoryName(step, attempt),
          .has_manifest = has_manifest};
}

std::vector<int64_t> Steps(const std::vector<CheckpointFolder>& folders) {
  std::vector<int64_t> steps;
  for (const CheckpointFolder& folder : folders) {
    steps.push_back(folder.step);
  }
  return steps;
}

TEST_CASE("a seal shows every changed byte") {
  const std::string sealed = Seal("{\"format\":\"tide-checkpoint/1\",\"x\":1");
  REQUIRE(CheckSeal(sealed, "it"));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    INFO(i);
    CHECK_FALSE(CheckSeal(changed, "it"));
    CHECK_FALSE(CheckSeal(sealed.substr(0, i), "it"));
  }
  const Status newer = CheckSeal(Seal("{\"format\":\"tide-checkpoint/2\""), "it");
  CHECK(newer.error().code == ErrorCode::kNewerSchema);
}

TEST_CASE("names are those of the format, and others are left out") {
  const TestingFolder folder;
  for (const char* name : {"s000000000010-0002",
                           "s000000000010-0001",
                           "s000000000002-00ff",
                           "s1-0001",
                           "s000000000010-0001x",
                           "s00000000001a-0001",
                           "s000000000010-00G1",
                           ".saver-00000"}) {
    std::filesystem::create_directory(folder.path + "/" + name);
  }
  REQUIRE(PutFile(folder.path + "/s000000000009-0001", "a file, not a folder"));
  REQUIRE(PutFile(folder.path + "/s000000000010-0001/MANIFEST.json", "x"));
  const auto found = ScanFolder(folder.path);
  REQUIRE(found);
  REQUIRE(Steps(*found) == std::vector<int64_t>{2, 10, 10});
  CHECK((*found)[0].attempt == 255);
  CHECK((*found)[1].has_manifest);
  CHECK_FALSE((*found)[2].has_manifest);
  CHECK(DirectoryName(10, 2) == "s000000000010-0002");
  CHECK_FALSE(ScanFolder(folder.path + "/absent"));
  CHECK(*IsCommitted((*found)[1].path) == false);
}

TEST_CASE("garbage is what no start can need any more") {
  const std::vector<CheckpointFolder> found = {Found(10, 1, true),
                                               Found(20, 1, true),
                                               Found(25, 1, false),
                                               Found(30, 2, true),
                                               Found(35, 2, false),
                                               Found(37, 3, false),
                                               Found(40, 2, true),
                                               Found(50, 2, false)};
  const CheckpointFolder newest = Found(40, 2, true);
  const auto pick =
      [&](int64_t keep, std::vector<std::string> damaged, std::vector<int64_t> saving) {
        return Steps(PickGarbage(found, newest, keep, damaged, saving));
      };
  CHECK(pick(2, {}, {}) == std::vector<int64_t>{10, 20, 25, 35});
  CHECK(pick(1, {}, {}) == std::vector<int64_t>{10, 20, 25, 30, 35});
  CHECK(pick(9, {}, {}) == std::vector<int64_t>{25, 35});
  CHECK(pick(2, {}, {35}) == std::vector<int64_t>{10, 20, 25});
  CHECK(pick(2, {DirectoryName(30, 2)}, {}) == std::vector<int64_t>{10, 25, 30, 35});
}

TEST_CASE("a removed checkpoint loses its manifest first") {
  const TestingFolder folder;
  const CheckpointFolder old{
      .step = 1, .attempt = 1, .path = folder.path + "/s", .has_manifest = true};
  std::filesystem::create_directory(old.path);
  REQUIRE(PutFile(old.path + "/MANIFEST.json", "x"));
  REQUIRE(PutFile(old.path + "/d00000.safetensors", "x"));
  REQUIRE(RemoveCheckpoint(old));
  CHECK_FALSE(std::filesystem::exists(old.path));
  CHECK(RemoveCheckpoint(old).error().code == ErrorCode::kSystem);
}

}  // namespace
}  // namespace tide::sdk
