// The program against a server and a folder: a job's checkpoints.

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"
#include "common/base/file.h"

using namespace tide::cli::testing;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

// A folder that is gone at the end.
class CheckpointFolder {
 public:
  CheckpointFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tide-ck-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~CheckpointFolder() { std::filesystem::remove_all(path_); }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

  // Committed at 2026-01-31 12:00:00Z and `after_s` seconds.
  void Add(const std::string& id, const std::string& manifest, int64_t after_s = 0) const {
    constexpr int64_t kNoon = 1'769'860'800;
    std::filesystem::create_directories(path_ + "/" + id);
    const std::string file = path_ + "/" + id + "/MANIFEST.json";
    REQUIRE(tide::ReplaceFile(file, manifest));
    const timespec at{kNoon + after_s, 0};
    const timespec times[2] = {at, at};
    REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  }

 private:
  std::string path_;
};

std::string ManifestOf(const std::string& job, int64_t bytes) {
  return json{{"format", "tide-checkpoint/2"}, {"job", job}, {"world", 64}, {"bytes", bytes}}
      .dump();
}

json JobSavingTo(const std::string& dir) {
  return {{"id", "j-1"},
          {"spec", {{"checkpoint", {{"dir", dir}}}}},
          {"state", "running"},
          {"array", nullptr},
          {"checkpoint",
           {{"step", 1840},
            {"id", "s000000001840-0002"},
            {"at", "2026-01-31T12:00:00.000Z"},
            {"epoch", 2}}},
          {"attempts",
           {{{"epoch", 1},
             {"stop_step", 1200},
             {"parked_at", "2026-01-31T11:00:00.000Z"},
             {"saved_at", "2026-01-31T11:00:04.500Z"}},
            {{"epoch", 2}, {"stop_step", nullptr}, {"saved_at", nullptr}}}}};
}

json Listed(const FakeServer& server, std::vector<std::string> args = {}) {
  args.insert(args.begin(), {"-o", "json", "checkpoints", "j-1"});
  const auto run = RunTide(args, Using(server));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return json::parse(run.out);
}

}  // namespace

TEST_CASE("checkpoints are those of the folder, newest first") {
  const CheckpointFolder folder;
  folder.Add("s000000001200-0001", ManifestOf("j-1", 5000));
  folder.Add("s000000001840-0002", ManifestOf("j-1", int64_t{13} << 30), 60);
  folder.Add("s000000001840-000a", ManifestOf("", 2 << 20), 120);
  std::filesystem::create_directories(folder.path() + "/s000000001900-0002");  // not committed
  folder.Add("s1-0001", ManifestOf("j-1", 1));                                 // names of others
  folder.Add("s000000001300-000x", ManifestOf("j-1", 1));
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", JobSavingTo(folder.path()).dump());

  const json list = Listed(server);
  CHECK(list["dir"] == folder.path());
  CHECK(list["dir_read"] == true);
  REQUIRE(list["items"].size() == 3);
  CHECK(list["items"][0]["id"] == "s000000001840-000a");
  CHECK(list["items"][0]["job"].is_null());
  CHECK(list["items"][1] == json{{"id", "s000000001840-0002"},
                                 {"step", 1840},
                                 {"attempt", 2},
                                 {"at", "2026-01-31T12:01:00.000Z"},
                                 {"bytes", int64_t{13} << 30},
                                 {"seconds", nullptr},
                                 {"ranks", 64},
                                 {"job", "j-1"},
                                 {"state", "committed"},
                                 {"damage", nullptr}});
  CHECK(list["items"][2]["seconds"] == 4.5);
  CHECK(RunTide({"checkpoints", "j-1", "-o", "name"}, Using(server)).out ==
        "s000000001840-000a\ns000000001840-0002\ns000000001200-0001\n");
  const auto table = RunTide({"checkpoints", "j-1"}, Using(server));
  CHECK_THAT(table.out, Contains("s000000001840-0002  1840  2026-01-31 12:01:00Z"));
  CHECK_THAT(table.out,
             Contains("13.0 GiB") && Contains("2 MiB") && Contains("5 KiB") && Contains(" 4.5s "));
  CHECK_THAT(table.out, !Contains("DAMAGE") && !Contains("JOB"));
  CHECK(table.err.empty());
}

TEST_CASE("without a folder checkpoints are what the scheduler recorded") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", JobSavingTo("").dump());
  const json list = Listed(server);
  CHECK(list["dir"].is_null());
  CHECK(list["dir_read"] == false);
  REQUIRE(list["items"].size() == 2);
  CHECK(list["items"][0]["id"] == "s000000001840-0002");
  CHECK(list["items"][0]["state"] == "recorded");
  CHECK(list["items"][1]["id"] == "s000000001200-0001");
  CHECK(list["items"][1]["seconds"] == 4.5);
  const auto table = RunTide({"checkpoints", "j-1"}, Using(server));
  CHECK_THAT(table.out, !Contains("SIZE") && Contains("recorded"));
  CHECK_THAT(table.err, Contains("agents chose") && Contains("--dir DIR"));

  server.OnGet("/v1/jobs/j-1", JobSavingTo("/nowhere/ck").dump());
  const auto unseen = RunTide({"checkpoints", "j-1"}, Using(server));
  CHECK(unseen.exit_code == 0);
  CHECK_THAT(unseen.err, Contains("cannot be seen from here (there is no folder /nowhere/ck)"));
  const auto asked = RunTide({"checkpoints", "j-1", "--dir", "/nowhere/else"}, Using(server));
  CHECK(asked.exit_code == 1);
  CHECK(asked.err == "tide: there is no folder /nowhere/else\n");
}

TEST_CASE("checkpoints says what is missing, damaged or another job's") {
  const CheckpointFolder folder;
  folder.Add("s000000001200-0001", R"({"format":"tide-che)");
  folder.Add("s000000001300-0001", ManifestOf("j-7", 1));
  folder.Add("s000000001400-0001", R"({"format":"tide-checkpoint/9"})");
  folder.Add("s000000001500-0001", "[1]");
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", JobSavingTo("").dump());
  const json items = Listed(server, {"--dir", folder.path()})["items"];
  REQUIRE(items.size() == 5);
  CHECK(items[0]["id"] == "s000000001840-0002");
  CHECK(items[0]["state"] == "missing");
  CHECK(items[1]["state"] == "damaged");
  CHECK(items[2]["damage"] == "it has format tide-checkpoint/9");
  CHECK(items[3]["state"] == "committed");
  CHECK(items[4]["damage"] == "its manifest is cut short");
  const auto table = RunTide({"checkpoints", "j-1", "--dir", folder.path()}, Using(server));
  CHECK_THAT(table.out, Contains("j-7") && Contains("cut short"));
}

TEST_CASE("an element of an array has a folder of its own") {
  const CheckpointFolder folder;
  folder.Add("3/s000000000010-0001", ManifestOf("j-1", 1));
  json job = JobSavingTo(folder.path());
  job["array"] = {{"job", "j-0"}, {"index", 3}, {"count", 5}};
  job["checkpoint"] = nullptr;
  job["attempts"] = json::array();
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", job.dump());
  CHECK(Listed(server)["items"].size() == 1);
  CHECK(Listed(server)["dir"] == folder.path() + "/3");
}

TEST_CASE("a job without checkpoints, and none at all") {
  json job = JobSavingTo("");
  job["checkpoint"] = nullptr;
  job["attempts"] = json::array();
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", job.dump());
  const auto none = RunTide({"checkpoints", "j-1"}, Using(server));
  CHECK(none.exit_code == 0);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Contains("j-1 has saved nothing yet"));
  CHECK(Listed(server)["items"].empty());
  CHECK(RunTide({"checkpoints", "j-9"}, Using(server)).exit_code != 0);
}
