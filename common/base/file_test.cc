#include "common/base/file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace tide {
namespace {

std::string MakeTemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "tide-file-XXXXXX";
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

}  // namespace

TEST_CASE("writes replace a file whole, durably or not") {
  const std::string folder = MakeTemporaryFolder();
  const std::string path = folder + "/a.json";
  REQUIRE(WriteFileDurably(path, "one"));
  REQUIRE(WriteFileDurably(path, "two"));
  CHECK(ReadFile(path).value() == "two");
  REQUIRE(ReplaceFile(path, "three", 0640));
  CHECK(ReadFile(path).value() == "three");
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms{0640});
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what others put in the way of a durable write is not followed") {
  const std::string folder = MakeTemporaryFolder();
  const std::string path = folder + "/secret";
  // The name that a guess would try first, and a file of the other's own to read the secret from.
  REQUIRE(WriteFileDurably(folder + "/bait", "old"));
  std::filesystem::create_symlink(folder + "/bait", path + ".tmp" + std::to_string(::getpid()));
  std::filesystem::create_symlink(folder + "/bait", path);
  REQUIRE(WriteFileDurably(path, "new"));
  CHECK(ReadFile(folder + "/bait").value() == "old");
  CHECK(ReadFile(path).value() == "new");
  CHECK_FALSE(std::filesystem::is_symlink(path));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a durable write that cannot take its place leaves nothing") {
  const std::string folder = MakeTemporaryFolder();
  REQUIRE(MakeDirs(folder + "/taken/inside"));
  CHECK_FALSE(WriteFileDurably(folder + "/taken", "text"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("reads are bounded and say what is missing") {
  const std::string folder = MakeTemporaryFolder();
  CHECK(ReadFile(folder + "/none").error().code == ErrorCode::kNotFound);
  REQUIRE(WriteFileDurably(folder + "/big", std::string(1000, 'x')));
  CHECK(ReadFile(folder + "/big", 999).error().code == ErrorCode::kExhausted);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the tail of a file is its last bytes") {
  const std::string folder = MakeTemporaryFolder();
  REQUIRE(WriteFileDurably(folder + "/log", "0123456789"));
  CHECK(ReadTail(folder + "/log", 4).value() == "6789");
  CHECK(ReadTail(folder + "/log", 100).value() == "0123456789");
  CHECK_FALSE(ReadTail(folder + "/none", 4));
  std::filesystem::remove_all(folder);
}

TEST_CASE("folders are made with their parents") {
  const std::string folder = MakeTemporaryFolder();
  CHECK(MakeDirs(folder + "/a/b/c"));
  CHECK(MakeDirs(folder + "/a/b/c"));
  REQUIRE(WriteFileDurably(folder + "/file", ""));
  CHECK_FALSE(MakeDirs(folder + "/file/x"));
  std::filesystem::remove_all(folder);
}

}  // namespace tide
