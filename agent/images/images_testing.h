#pragma once
// For tests: a folder, layouts made by umoci, and a store with a fetcher on it.

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/images/layout.h"
#include "agent/images/program.h"

namespace tide::agent {

// Empty when images can be fetched here; otherwise why not.
inline std::string WhyNoImageTests() {
  if (::geteuid() != 0) {
    return "tests of images need root";
  }
  for (const char* tool : {"/usr/bin/skopeo", "/usr/bin/umoci"}) {
    if (::access(tool, X_OK) != 0) {
      return std::string("tests of images need ") + tool;
    }
  }
  return "";
}

class ImageDir {
 public:
  ImageDir() {
    std::string pattern = "/tmp/tide-images-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~ImageDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ImageDir(const ImageDir&) = delete;
  ImageDir& operator=(const ImageDir&) = delete;
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }

  void Umoci(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "/usr/bin/umoci");
    const Fd never(::eventfd(0, EFD_CLOEXEC));
    const auto result = RunProgram({.argv = std::move(arguments),
                                    .environment = {"PATH=/usr/bin:/bin"},
                                    .output_max = 1U << 20U,
                                    .each_second = {}},
                                   never);
    REQUIRE(result);
    INFO(result->errors);
    REQUIRE(result->ok());
  }

  // A layout with one image of these host files, each in its own layer.
  [[nodiscard]] std::string MakeLayout(const std::string& name,
                                       const std::string& tag,
                                       const std::vector<std::string>& files) const {
    const std::string layout = File(name);
    if (!std::filesystem::exists(layout)) {
      Umoci({"init", "--layout", layout});
    }
    const std::string image = layout + ":" + tag;
    Umoci({"new", "--image", image});
    for (const std::string& file : files) {
      Umoci({"insert", "--image", image, file, file});
    }
    Umoci({"config", "--image", image, "--config.env", "PATH=/opt/here:/usr/bin:/bin"});
    Umoci({"config", "--image", image, "--config.env", "FROM_IMAGE=yes"});
    for (const auto& entry : std::filesystem::recursive_directory_iterator(layout)) {
      std::filesystem::permissions(entry.path(), std::filesystem::perms(0755));
    }
    return layout;
  }

 private:
  std::string path_;
};

}  // namespace tide::agent
