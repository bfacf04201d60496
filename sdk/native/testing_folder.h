#pragma once
// A folder that ends with the test.

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tide::sdk {

struct TestingFolder {
  TestingFolder() {
    path = (std::filesystem::temp_directory_path() / "tide-sdk-XXXXXX").string();
    path = ::mkdtemp(path.data());
  }
  ~TestingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TestingFolder(const TestingFolder&) = delete;
  TestingFolder& operator=(const TestingFolder&) = delete;

  std::string path;
};

}  // namespace tide::sdk
