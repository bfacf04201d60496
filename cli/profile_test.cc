#include "cli/profile.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"

using namespace tide;
using namespace tide::cli;

namespace {

// A folder that is gone after the test.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tide-profile-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string Write(const std::string& name,
                                  const std::string& text,
                                  mode_t mode = 0600) const {
    const std::string file = path_ + "/" + name;
    REQUIRE(WriteFileDurably(file, text));
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return file;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("the strongest source names the server") {
  const Folder folder;
  const std::string user = folder.Write("user.yaml", "server: http://user:1/\ntoken: tu\n");
  const std::string dev = folder.Write("dev.yaml", "server: http://dev:1\ntoken: td\npid: 7\n");
  const auto resolve = [](ServerSources sources) {
    const auto server = ResolveServer(sources);
    REQUIRE(server);
    return server->url + " " + server->token + " " + server->origin;
  };
  CHECK(resolve({}) == "http://127.0.0.1:7070  the default");
  CHECK(resolve({"", "", "", {user, dev}}) == "http://user:1 tu " + user);
  CHECK(resolve({"", "", "", {folder.path() + "/none", dev}}) == "http://dev:1 td " + dev);
  CHECK(resolve({"", "", "mine", {dev}}) == "http://dev:1 mine " + dev);
  CHECK(resolve({"", "http://env:1", "", {}}) == "http://env:1  TIDE_SERVER");
  CHECK(resolve({"https://flag", "http://env:1", "t", {user}}) == "https://flag t --server");
}

TEST_CASE("a token goes only to the server it belongs to") {
  const Folder folder;
  const std::string dev = folder.Write("dev.yaml", "server: http://dev:1\ntoken: td\n");
  CHECK(ResolveServer({"http://other:1", "", "", {dev}})->token.empty());
  CHECK(ResolveServer({"http://dev:1/", "", "", {dev}})->token == "td");
}

TEST_CASE("an authority comes from the strongest source, and with its server only") {
  const Folder folder;
  const std::string pem = folder.Write("ca.pem", "");
  const std::string mine = folder.Write("mine.pem", "");
  const std::string user = folder.Write("user.yaml", "server: https://user\nca: " + pem + "\n");
  CHECK(ResolveServer({"", "", "", {user}})->ca == pem);
  CHECK(ResolveServer({"https://other", "", "", {user}})->ca.empty());
  CHECK(ResolveServer({"https://user", "", "t", {user}})->ca == pem);
  CHECK(ResolveServer({"", "", "", {user}, mine})->ca == mine);
  const auto none = ResolveServer({"", "", "", {}, folder.path() + "/none"});
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("cannot read the authority") == 0);
}

TEST_CASE("what was kept is read again, the authority by its whole path") {
  const Folder folder;
  const std::string pem = folder.Write("an authority.pem", "");
  const std::string file = folder.path() + "/kept.yaml";
  REQUIRE(WriteProfile(file, {"https://a", "t", "", pem}));
  CHECK(ResolveServer({"", "", "", {file}})->token == "t");
  CHECK(ResolveServer({"", "", "", {file}})->ca == pem);
  REQUIRE(ForgetToken(file, "https://a"));
  CHECK(ResolveServer({"", "", "", {file}})->token.empty());
  CHECK(ResolveServer({"", "", "", {file}})->ca == pem);
}

TEST_CASE("a profile that others can write is refused") {
  const Folder folder;
  const std::string text = "server: http://dev:1\n";
  const auto code = [](const std::string& file) {
    const auto server = ResolveServer({"", "", "", {file}});
    REQUIRE_FALSE(server);
    return server.error().code;
  };
  CHECK(code(folder.Write("group.yaml", text, 0620)) == ErrorCode::kPermissionDenied);
  CHECK(code(folder.Write("world.yaml", text, 0602)) == ErrorCode::kPermissionDenied);
  CHECK(code(folder.path()) == ErrorCode::kPermissionDenied);  // no file at all
  const std::string good = folder.Write("good.yaml", text);
  const std::string link = folder.path() + "/link.yaml";
  std::filesystem::create_symlink(good, link);
  CHECK(code(link) == ErrorCode::kSystem);
  CHECK(code(folder.Write("bad.yaml", "- a\n")) == ErrorCode::kInvalidArgument);
  CHECK(code(folder.Write("url.yaml", "server: dev:1\n")) == ErrorCode::kInvalidArgument);
  CHECK(code(folder.Write("token.yaml", "server: http://a\ntoken: \"a\\nb\"\n")) ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("the profile of tide dev lies where nobody else can write") {
  const Folder folder;
  const std::string own = "/tmp/tide-" + std::to_string(::geteuid()) + "/dev-profile.yaml";
  CHECK(DevProfilePath("/a/b.yaml", folder.path()) == "/a/b.yaml");
  CHECK(DevProfilePath("", folder.path()) == folder.path() + "/tide-dev-profile.yaml");
  CHECK(DevProfilePath("", "") == own);
  CHECK(DevProfilePath("", folder.path() + "/none") == own);
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  CHECK(DevProfilePath("", folder.path()) == own);
}
