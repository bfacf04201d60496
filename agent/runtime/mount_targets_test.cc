#include "agent/runtime/mount_targets.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "agent/runtime/oci_bundle.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

struct Image {
  Image() {
    char name[] = "/tmp/tide-image-XXXXXX";
    root = ::mkdtemp(name);
    for (const char* folder : {"/etc", "/usr/lib", "/run", "/var"}) {
      std::filesystem::create_directories(root + folder);
    }
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() { std::filesystem::remove_all(root); }

  void Link(const std::string& at, const std::string& to) const {
    std::filesystem::create_symlink(to, root + at);
  }
  [[nodiscard]] std::string Check(const std::string& target) const {
    const Status status = CheckMountTargets(root, {target});
    return status ? "" : status.error().message;
  }

  std::string root;
};

}  // namespace

TEST_CASE("a link of an image does not lead a mount onto the kernel's folders", "[mounts]") {
  for (const char* to : {"/proc/sys",
                         "proc",
                         "/proc/self",
                         "/proc/1",
                         "/sys",
                         "/dev/shm",
                         "../../proc",
                         "/usr/lib/../../proc",
                         "/",
                         "tmp",
                         "/hop"}) {
    CAPTURE(to);
    const Image image;
    image.Link("/hop", "proc/1");
    image.Link("/tmp", to);
    CHECK(image.Check("/tmp").starts_with("image: /tmp is a link that leads to "));
    CHECK(image.Check("/tmp/below").empty() == (std::string(to) == "/"));
  }
  const Image image;
  image.Link("/run/user", "/proc/1");
  CHECK(image.Check("/run/user/tide-init") ==
        "image: /run/user/tide-init is a link that leads to /proc/1/tide-init, and Tide mounts "
        "there; "
        "use an image in which it is a folder or a file");
}

TEST_CASE("the kernel's folders are no links", "[mounts]") {
  const Image image;
  image.Link("/proc", "/usr/lib");
  CHECK_FALSE(image.Check("/proc").empty());
  CHECK_FALSE(image.Check("/proc/sys").empty());
  CHECK(image.Check("/sys").empty());
  CHECK(image.Check("/dev/pts").empty());
}

TEST_CASE("other links of an image are followed inside it", "[mounts]") {
  const Image image;
  image.Link("/var/run", "/run");
  image.Link("/lib", "usr/lib");
  image.Link("/var/up", "../../../../etc");
  CHECK(image.Check("/var/run/secrets").empty());
  CHECK(image.Check("/lib/x/y").empty());
  CHECK(image.Check("/var/up/hosts").empty());
  CHECK(image.Check("/nothing/there").empty());
}

TEST_CASE("all mounts of a container are looked at", "[mounts]") {
  CHECK(MountTargets(R"({"mounts": [{"destination": "/proc"}, {"destination": "/a/b"}]})") ==
        std::vector<std::string>{"/proc", "/a/b"});
}

}  // namespace tide::agent
