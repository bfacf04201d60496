#include "agent/identity/spec_path.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

// A folder in which jobs may name paths, with Tide's own in it.
//   data/x  link → data  out → /etc  state/work/w  state/secret  pipe  gone → state/new
class World {
 public:
  World() {
    std::string pattern = "/tmp/tide-paths-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    top_ = pattern;
    rules = {{top_}, {At("state")}};
    REQUIRE(::chmod(top_.c_str(), 0755) == 0);
    for (const char* folder : {"data/x", "state/work/w", "state/secret", "private", "shut"}) {
      REQUIRE(MakeDirs(At(folder), 0755));
    }
    REQUIRE(WriteFileDurably(At("data/file"), "text", 0644));
    fs::create_symlink("data", At("link"));
    fs::create_symlink("/etc", At("out"));
    fs::create_symlink("state/new", At("gone"));
    REQUIRE(::mkfifo(At("pipe").c_str(), 0666) == 0);
    REQUIRE(::chmod(At("private").c_str(), 0700) == 0);
    Give("private", owner.uid);
    Give("data", owner.uid);
    REQUIRE(::chmod(At("shut").c_str(), ::geteuid() == 0 ? 0700 : 0000) == 0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    std::error_code ignored;
    fs::remove_all(top_, ignored);
  }

  [[nodiscard]] std::string At(const std::string& name) const { return top_ + "/" + name; }
  void Give(const std::string& name, uint32_t uid) const {
    if (::geteuid() == 0) {
      REQUIRE(::chown(At(name).c_str(), uid, uid) == 0);
    }
  }
  [[nodiscard]] Result<SpecPath> Resolve(const std::string& path, PathUse use) const {
    return ResolveSpecPath(rules, owner, path, use, "n1");
  }
  [[nodiscard]] ErrorCode WhyNot(const std::string& path, PathUse use = PathUse::kRead) const {
    const auto found = Resolve(path, use);
    INFO(path);
    REQUIRE_FALSE(found);
    INFO(found.error().message);
    CHECK(found.error().message.find(path) != std::string::npos);
    return found.error().code;
  }
  [[nodiscard]] const std::string& top() const { return top_; }

 private:
  std::string top_;

 public:
  Owner owner =
      ::geteuid() == 0 ? Owner{20017, 20017, {}, ""} : Owner{::geteuid(), ::getegid(), {}, ""};
  PathRules rules;
};

TEST_CASE("a path is what it leads to") {
  World world;
  const auto found = world.Resolve(world.At("link/./x"), PathUse::kRead);
  REQUIRE(found);
  CHECK(found->path == world.At("data/x"));
  struct stat info{};
  REQUIRE(::stat(world.At("data/x").c_str(), &info) == 0);
  CHECK(found->device == info.st_dev);
  CHECK(found->inode == info.st_ino);
  CHECK(found->guarded_inside.empty());
  CHECK(world.Resolve(world.At("data/file"), PathUse::kRead));
  CHECK(world.Resolve(world.At("private"), PathUse::kFolder));
  CHECK(world.WhyNot(world.At("data/file"), PathUse::kEnter) == ErrorCode::kSystem);
  CHECK(world.WhyNot(world.At("nowhere")) == ErrorCode::kSystem);
  CHECK(world.WhyNot(world.At("shut"), PathUse::kEnter) == ErrorCode::kSystem);
}

TEST_CASE("jobs go nowhere but below the roots, through whatever links") {
  World world;
  for (const std::string path : {"/",
                                 "/proc",
                                 "/proc/self/root",
                                 "/sys",
                                 "/dev",
                                 "/dev/shm",
                                 "/etc",
                                 "/run",
                                 "/tmp",
                                 "/root",
                                 "/var/lib"}) {
    for (const PathUse use : {PathUse::kRead, PathUse::kWrite, PathUse::kEnter, PathUse::kFolder}) {
      const auto found = world.Resolve(path, use);
      INFO(path);
      CHECK_FALSE(found);
    }
  }
  CHECK(world.WhyNot(world.At("out")) == ErrorCode::kPermissionDenied);
  CHECK(world.WhyNot(world.At("out/passwd")) == ErrorCode::kPermissionDenied);
  CHECK(world.WhyNot(world.At("data/../../../etc")) == ErrorCode::kPermissionDenied);
}

TEST_CASE("a root of everything gives neither the kernel's files nor the node's") {
  World world;
  world.rules.roots = {"/"};
  CHECK(world.Resolve("/etc", PathUse::kRead));
  for (const std::string path : {"/proc",
                                 "/proc/1",
                                 "/sys/kernel",
                                 "/dev",
                                 "/dev/shm",
                                 "/dev/null",
                                 "/dev/pts",
                                 "/sys/fs/cgroup",
                                 "/run"}) {
    CHECK(world.WhyNot(path) == ErrorCode::kPermissionDenied);
  }
  const auto all = world.Resolve("/", PathUse::kRead);
  REQUIRE(all);
  CHECK(std::ranges::count(all->guarded_inside, "dev") == 1);
  CHECK(std::ranges::count(all->guarded_inside, world.At("state").substr(1)) == 1);
}

TEST_CASE("Tide's own folders are masked in what holds them, and given to nobody") {
  World world;
  for (const char* path : {"state", "state/secret", "state/work"}) {
    CHECK(world.WhyNot(world.At(path)) == ErrorCode::kPermissionDenied);
  }
  CHECK(world.WhyNot(world.At("gone"), PathUse::kFolder) == ErrorCode::kSystem);
  CHECK(world.WhyNot(world.At("state/new"), PathUse::kFolder) == ErrorCode::kPermissionDenied);
  CHECK_FALSE(fs::exists(world.At("state/new")));
  CHECK(world.Resolve(world.top(), PathUse::kRead)->guarded_inside ==
        std::vector<std::string>{"state"});
  world.rules.roots.push_back(world.At("state/work"));
  CHECK(world.Resolve(world.At("state/work/w"), PathUse::kRead));
  CHECK(world.WhyNot(world.At("state/secret")) == ErrorCode::kPermissionDenied);
}

TEST_CASE("another way to one of Tide's folders leads nowhere, too") {
  if (::geteuid() != 0) {
    WARN("only root can mount");
    return;
  }
  World world;
  bool made = false;
  bool refused = false;
  std::thread([&] {
    made =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount(world.At("state").c_str(), world.At("data/x").c_str(), nullptr, MS_BIND, nullptr) ==
            0;
    const auto found = world.Resolve(world.At("data/x/secret"), PathUse::kRead);
    refused = !found && found.error().code == ErrorCode::kPermissionDenied;
  }).join();
  REQUIRE(made);
  CHECK(refused);
}

TEST_CASE("only folders and files") {
  World world;
  CHECK(world.WhyNot(world.At("pipe")) == ErrorCode::kInvalidArgument);
}

TEST_CASE("missing folders are made for their owner, where jobs may go") {
  World world;
  const auto found = world.Resolve(world.At("link/a/b"), PathUse::kFolder);
  REQUIRE(found);
  CHECK(found->path == world.At("data/a/b"));
  struct stat info{};
  REQUIRE(::stat(world.At("data/a/b").c_str(), &info) == 0);
  CHECK(info.st_uid == world.owner.uid);
  CHECK_FALSE(world.Resolve(world.At("out/tide-test"), PathUse::kFolder));
  CHECK_FALSE(fs::exists("/etc/tide-test"));
}

TEST_CASE("a home is a root while it is its owner's") {
  World world;
  world.rules.roots.clear();
  world.owner.home = world.At("private");
  CHECK(world.Resolve(world.At("private"), PathUse::kWrite));
  CHECK(world.WhyNot(world.At("data/x")) == ErrorCode::kPermissionDenied);
  if (::geteuid() == 0) {
    world.Give("private", 0);
    REQUIRE(::chmod(world.At("private").c_str(), 0755) == 0);
    CHECK(world.WhyNot(world.At("private")) == ErrorCode::kPermissionDenied);
  }
}

TEST_CASE("what was looked at is opened, or nothing") {
  World world;
  const auto found = world.Resolve(world.At("data/x"), PathUse::kRead);
  REQUIRE(found);
  const auto open = [&] { return OpenResolved(found->path, found->device, found->inode); };
  CHECK(open());
  fs::rename(world.At("data"), world.At("moved"));
  fs::create_symlink("moved", world.At("data"));
  CHECK(open().error().code == ErrorCode::kConflict);  // the same folder, but by a link
  fs::remove(world.At("data"));
  REQUIRE(MakeDirs(world.At("data/x")));
  CHECK(open().error().code == ErrorCode::kConflict);
  fs::remove(world.At("data/x"));
  fs::create_symlink("/etc", world.At("data/x"));
  CHECK(open().error().code == ErrorCode::kConflict);
}

}  // namespace
}  // namespace tide::agent
