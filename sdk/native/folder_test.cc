#include "sdk/native/folder.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

CheckpointId Name(int64_t step, int64_t attempt, int64_t generation = 1) {
  return {.step = step,
          .attempt = attempt,
          .start = "0000000" + std::to_string(attempt),
          .generation = generation};
}

CheckpointFolder Found(const CheckpointId& name, bool has_manifest) {
  return {.id = name, .path = FormatCheckpointId(name), .has_manifest = has_manifest};
}

std::vector<int64_t> Steps(const std::vector<CheckpointFolder>& folders) {
  std::vector<int64_t> steps;
  for (const CheckpointFolder& folder : folders) {
    steps.push_back(folder.id.step);
  }
  return steps;
}

TEST_CASE("a seal shows every changed byte") {
  const std::string sealed = Seal("{\"format\":\"tide-checkpoint/2\",\"x\":1");
  REQUIRE(CheckSeal(sealed, "it"));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    INFO(i);
    CHECK_FALSE(CheckSeal(changed, "it"));
    CHECK_FALSE(CheckSeal(sealed.substr(0, i), "it"));
  }
  const Status newer = CheckSeal(Seal("{\"format\":\"tide-checkpoint/3\""), "it");
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
                           "s000000000010-0001-d998b86",
                           "s000000000010-0001-D998B860",
                           "s000000000010-0001-d998b860-0",
                           "s000000000010-0001-d998b860-02",
                           "s000000000010-0001-d998b860-2-",
                           "s000000000001-0001-d998b860-2",
                           ".saver-00000"}) {
    std::filesystem::create_directory(folder.path + "/" + name);
  }
  REQUIRE(PutFile(folder.path + "/s000000000009-0001", "a file, not a folder"));
  REQUIRE(PutFile(folder.path + "/s000000000010-0001/MANIFEST.json", "x"));
  const auto found = ScanFolder(folder.path);
  REQUIRE(found);
  REQUIRE(Steps(*found) == std::vector<int64_t>{2, 10, 10, 1});
  CHECK((*found)[0].id.attempt == 255);
  CHECK((*found)[3].id.start == "d998b860");
  CHECK((*found)[3].id.generation == 2);
  CHECK((*found)[1].has_manifest);
  CHECK_FALSE((*found)[2].has_manifest);
  CHECK(FormatCheckpointId({.step = 10, .attempt = 2, .start = "", .generation = 1}) ==
        "s000000000010-0002");
  CHECK(FormatCheckpointId((*found)[3].id) == "s000000000001-0001-d998b860-2");
  CHECK_FALSE(ScanFolder(folder.path + "/absent"));
  CHECK(*IsCommitted((*found)[1].path) == false);
}

TEST_CASE("garbage is what no start can need any more") {
  // In the order of age: a later start is newer, whatever its steps.
  const std::vector<CheckpointFolder> found = {Found(Name(10, 1), true),
                                               Found(Name(70, 1), true),
                                               Found(Name(75, 1), false),
                                               Found(Name(30, 2), true),
                                               Found(Name(35, 2), false),
                                               Found(Name(40, 2), true),
                                               Found(Name(40, 2, 2), false),
                                               Found(Name(50, 2), false),
                                               Found(Name(37, 3), false)};
  for (size_t i = 1; i < found.size(); ++i) {
    CHECK(found[i - 1].id.IsOlderThan(found[i].id));
  }
  const CheckpointFolder newest = Found(Name(40, 2), true);
  const auto pick =
      [&](int64_t keep, std::vector<std::string> damaged, std::vector<int64_t> saving) {
        return Steps(PickGarbage(found, newest, keep, damaged, saving));
      };
  CHECK(pick(2, {}, {}) == std::vector<int64_t>{10, 70, 75, 35});
  CHECK(pick(1, {}, {}) == std::vector<int64_t>{10, 70, 75, 30, 35});
  CHECK(pick(9, {}, {}) == std::vector<int64_t>{75, 35});
  CHECK(pick(2, {}, {35}) == std::vector<int64_t>{10, 70, 75});
  CHECK(pick(2, {FormatCheckpointId(Name(30, 2))}, {}) == std::vector<int64_t>{10, 75, 30, 35});
}

TEST_CASE("of one step that was saved several times the last one counts") {
  const std::vector<CheckpointFolder> found = {Found(Name(10, 1), true),
                                               Found(Name(20, 1), true),
                                               Found(Name(20, 1, 2), true),
                                               Found(Name(20, 1, 3), true),
                                               Found(Name(20, 2), true)};
  const std::vector<CheckpointFolder> garbage = PickGarbage(found, found.back(), 3, {}, {});
  REQUIRE(garbage.size() == 2);
  CHECK(garbage[0].path == found[1].path);
  CHECK(garbage[1].path == found[2].path);
  // Saves may be committed close to one another: the one before then cleans up, too.
  CHECK(PickGarbage(found, found[2], 3, {}, {}).size() == 1);
  // One that is damaged replaces nothing.
  const std::vector<std::string> damaged = {found[3].path};
  CHECK(PickGarbage(found, found.back(), 3, damaged, {}).front().path == found[1].path);
}

TEST_CASE("what is pinned stays, and does not count") {
  std::vector<CheckpointFolder> found = {Found(Name(10, 1), true),
                                         Found(Name(20, 1), true),
                                         Found(Name(30, 1), true),
                                         Found(Name(40, 1), true)};
  found[0].is_pinned = found[2].is_pinned = true;
  CHECK(PickGarbage(found, found.back(), 2, {}, {}).empty());
  CHECK(Steps(PickGarbage(found, found.back(), 1, {}, {})) == std::vector<int64_t>{20});
}

TEST_CASE("a removed checkpoint loses its manifest first") {
  const TestingFolder folder;
  const CheckpointFolder old{.id = Name(1, 1), .path = folder.path + "/s", .has_manifest = true};
  std::filesystem::create_directory(old.path);
  REQUIRE(PutFile(old.path + "/MANIFEST.json", "x"));
  REQUIRE(PutFile(old.path + "/d00000.safetensors", "x"));
  REQUIRE(RemoveCheckpoint(old));
  CHECK_FALSE(std::filesystem::exists(old.path));
  CHECK(RemoveCheckpoint(old).error().code == ErrorCode::kSystem);
}

}  // namespace
}  // namespace tide::sdk
