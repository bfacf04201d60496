#include "agent/identity/mount_aliases.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace tide::agent {
namespace {

using Strings = std::vector<std::string>;

std::string Line(const std::string& device, const std::string& root, const std::string& point) {
  return "36 35 " + device + " " + root + " " + point + " rw - ext4 /dev/x rw\n";
}

TEST_CASE("a bind mount of a folder, of one around it or of one inside it is an alias") {
  struct Row {
    const char* name;
    std::string mounts;
    std::vector<MountAlias> aliases;
  };
  const std::string root = Line("8:1", "/", "/");
  const std::vector<Row> rows = {
      {"none", root, {}},
      {"the folder", root + Line("8:1", "/var/tide", "/mnt/a"), {{"/mnt/a", "/var/tide"}}},
      {"one around it", root + Line("8:1", "/var", "/mnt"), {{"/mnt/tide", "/var/tide"}}},
      {"the whole disk", root + Line("8:1", "/", "/mnt"), {{"/mnt/var/tide", "/var/tide"}}},
      {"one inside it", root + Line("8:1", "/var/tide/s", "/mnt"), {{"/mnt", "/var/tide/s"}}},
      {"a neighbour's name", root + Line("8:1", "/var/tide2", "/mnt"), {}},
      {"another disk", root + Line("8:2", "/var/tide", "/mnt"), {}},
      {"itself a bind mount",
       root + Line("8:2", "/", "/data") + Line("8:2", "/t", "/var/tide"),
       {{"/data/t", "/var/tide"}}},
      {"a disk of its own", root + Line("8:2", "/", "/var/tide"), {}},
      {"a disk on a bind mount",
       root + Line("8:1", "/x", "/var/tide") + Line("8:2", "/", "/var/tide"),
       {}},
      {"a disk inside it",
       root + Line("8:2", "/", "/var/tide/s") + Line("8:2", "/x", "/mnt"),
       {{"/mnt", "/var/tide/s/x"}}},
      {"inside itself", root + Line("8:1", "/var/tide/s", "/var/tide/t"), {}},
      {"a blank in its name",
       root + Line("8:1", "/var/tide", R"(/mnt/a\040b)"),
       {{"/mnt/a b", "/var/tide"}}},
      {"no table", "", {}},
      {"half a line", root + "36 35 8:1 /var", {}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK((FindAliases(row.mounts, Strings{"/var/tide"}) == row.aliases));
  }
}

TEST_CASE("aliases are those that this process sees") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can mount");
    return;
  }
  std::string top = "/tmp/tide-aliases-XXXXXX";
  REQUIRE(::mkdtemp(top.data()) != nullptr);
  for (const char* folder : {"/state/s", "/open", "/hidden", "/over/state"}) {
    std::filesystem::create_directories(top + folder);
  }
  bool made = false;
  Result<Strings> found;
  std::thread([&] {
    const auto bind = [&](const std::string& source, const std::string& target) {
      return ::mount((top + source).c_str(), (top + target).c_str(), nullptr, MS_BIND, nullptr) ==
             0;
    };
    made = ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           bind("/state", "/open") && bind("", "/hidden") && bind("/over", "/hidden");
    found = WithAliases({top + "/state", top + "/missing"});
  }).join();
  std::filesystem::remove_all(top);
  REQUIRE(made);
  REQUIRE(found);
  CHECK(*found == Strings{top + "/state", top + "/missing", top + "/open"});
}

}  // namespace
}  // namespace tide::agent
