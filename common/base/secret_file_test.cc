#include "common/base/secret_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"

namespace tide {
namespace {

TEST_CASE("a secret in a file is its owner's alone, and long enough", "[base]") {
  std::string folder = (std::filesystem::temp_directory_path() / "tide-secret-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/secret";
  CHECK_FALSE(ReadSecretFile("the secret", path));
  REQUIRE(ReplaceFile(path, "sixteen-or-more-letters \r\n\n"));
  CHECK(ReadSecretFile("the secret", path) == "sixteen-or-more-letters");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_THAT(ReadSecretFile("the secret", path).error().message, Catch::Contains("chmod 600"));
  REQUIRE(ReplaceFile(path, "short\n"));
  CHECK_THAT(ReadSecretFile("the secret", path).error().message, Catch::Contains("fewer than 16"));
  REQUIRE(ReplaceFile(path, ""));
  CHECK_FALSE(ReadSecretFile("the secret", path));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tide
