#pragma once
// A folder of its own for a test, removed with everything in it.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace tide::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "tide-store-XXXXXX";
    TIDE_CHECK(::mkdtemp(pattern.data()) != nullptr, "a test has a temporary folder");
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace tide::testing
