#include "common/base/disk_use.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace tide {
namespace {

namespace fs = std::filesystem;

struct WalkedFolder {
  WalkedFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~WalkedFolder() { fs::remove_all(path); }
  WalkedFolder(const WalkedFolder&) = delete;
  WalkedFolder& operator=(const WalkedFolder&) = delete;

  void Write(const std::string& name, size_t bytes) const {
    fs::create_directories(fs::path(path + "/" + name).parent_path());
    std::ofstream(path + "/" + name) << std::string(bytes, 'x');
  }

  std::string path = "/tmp/tide-walked-XXXXXX";
};

constexpr size_t kMib = 1U << 20U;

TEST_CASE("what is on the disk counts once, and not what is linked to") {
  const WalkedFolder folder;
  folder.Write("outside/large", 4 * kMib);
  folder.Write("task/a/b/c", kMib);
  const uint64_t one = WalkFolder(folder.path + "/task").bytes;
  CHECK(one >= kMib);
  CHECK(one < 2 * kMib);
  fs::create_hard_link(folder.path + "/task/a/b/c", folder.path + "/task/again");
  fs::create_directory_symlink(folder.path + "/outside", folder.path + "/task/elsewhere");
  fs::create_symlink(folder.path + "/outside/large", folder.path + "/task/large");
  CHECK(WalkFolder(folder.path + "/task").bytes < 2 * kMib);
  // A file of holes takes what is written of it.
  std::ofstream(folder.path + "/task/holes").put('x');
  fs::resize_file(folder.path + "/task/holes", 100 * kMib);
  CHECK(WalkFolder(folder.path + "/task").bytes < 2 * kMib);
  CHECK(WalkFolder(folder.path + "/none").bytes == 0);
  CHECK(SpaceAt(folder.path).free > 0);
  CHECK(SpaceAt(folder.path + "/none").all == 0);
}

TEST_CASE("folders in folders without end hold no more files open than so many") {
  const WalkedFolder folder;
  std::string deep = folder.path + "/task";
  for (size_t i = 0; i < kFolderDepthMax; ++i) {
    deep += "/d";
  }
  fs::create_directories(deep);
  CHECK(WalkFolder(folder.path + "/task/d").too_deep == false);
  CHECK(WalkFolder(folder.path + "/task").too_deep);
}

TEST_CASE("amounts are written in GiB, small ones in MiB") {
  CHECK(SizeText(0) == "0.0 MiB");
  CHECK(SizeText((1ULL << 20U) / 2) == "0.5 MiB");
  CHECK(SizeText((1ULL << 30U) - 1) == "1023.9 MiB");
  CHECK(SizeText(1ULL << 30U) == "1.0 GiB");
  CHECK(SizeText(UINT64_MAX) == "17179869183.9 GiB");
}

}  // namespace
}  // namespace tide
