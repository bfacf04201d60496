#pragma once
// What the tests of validators share: a folder that goes away with its test.

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/base/file.h"

namespace tide::validators {

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "tide-validators-XXXXXX";
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool IsEmpty() const { return std::filesystem::is_empty(path_); }

  // Writes a file, and the folders above it. `path` begins with no slash.
  void Write(const std::string& path, const std::string& content, unsigned mode = 0600) const {
    const std::filesystem::path file = path_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    REQUIRE(fd.valid());
    REQUIRE(WriteAll(fd.get(), content));
    REQUIRE(::fchmod(fd.get(), mode) == 0);
  }

  [[nodiscard]] std::string Script(const std::string& body) const {
    std::string script = path_ + "/script";
    REQUIRE(WriteFileDurably(script, "#!/bin/sh\n" + body + "\n", 0700));
    return script;
  }

 private:
  std::string path_;
};

inline bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tide::validators
