// The program simulating: no server, files in, figures out.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/testing/run_tide.h"
#include "common/base/exit_codes.h"
#include "common/base/file.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

struct Folder {
  Folder()
      : path((std::filesystem::temp_directory_path() / ("tide-sim-cli-" + std::to_string(getpid())))
                 .string()) {
    std::filesystem::create_directories(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }

  [[nodiscard]] RunOptions Here() const { return {.folder = path}; }
  void Put(const std::string& name, const std::string& text) const {
    REQUIRE(tide::WriteFileDurably(path + "/" + name, text).has_value());
  }
  void PutTrace(const std::string& lines) const {
    std::string text = "job_id,submit_s,duration_s,gpus,gpus_per_node,user,group,status,kind\n";
    text += lines;
    Put("t.csv", text);
  }

  std::string path;
};

}  // namespace

TEST_CASE_METHOD(Folder, "sim prints lines of at most 80 columns, or JSON") {
  PutTrace("1,0,100,16,8,u,g,s,k\n2,10,50,8,8,u,g,s,k\n");
  const auto text =
      RunTide({"sim", "--trace", "t.csv", "--nodes", "2", "--policy", "fifo"}, Here());
  CHECK(text.exit_code == tide::kExitOk);
  CHECK(text.err.empty());
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
  }
  const auto out = RunTide(
      {"sim", "-o", "json", "--trace", "t.csv", "--nodes", "2", "--policy", "fifo"}, Here());
  CHECK(json::parse(out.out)["jct_s"]["mean"] == 120);
}

TEST_CASE_METHOD(Folder, "sim writes its figures and a line per job to files") {
  PutTrace("1,0,100,16,8,u,g,s,k\n");
  const auto run = RunTide({"sim",
                            "--trace",
                            "t.csv",
                            "--nodes",
                            "2",
                            "--policy",
                            "time-sharing",
                            "--json",
                            "figures.json",
                            "--jobs",
                            "jobs.csv"},
                           Here());
  CHECK(run.exit_code == tide::kExitOk);
  CHECK(json::parse(*tide::ReadFile(path + "/figures.json"))["policy"] == "time-sharing");
  CHECK(tide::ReadFile(path + "/jobs.csv")->find("\n1,16,0.000,0.000,100.000,") !=
        std::string::npos);
}

TEST_CASE_METHOD(Folder, "sim compares policies") {
  PutTrace("1,0,100,16,8,u,g,s,k\n2,10,50,8,8,u,g,s,k\n");
  const auto compare = [&](const std::string& format) {
    return RunTide(
        {"sim", "-o", format, "--trace", "t.csv", "--nodes", "2", "--policy", "fifo,sjf,las"},
        Here());
  };
  const json runs = json::parse(compare("json").out);
  REQUIRE(runs.size() == 3);
  CHECK(runs[2]["policy"] == "las");
  std::istringstream lines(compare("table").out);
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
  }
}

TEST_CASE_METHOD(Folder, "sim refuses bad input in one line that names the place") {
  PutTrace("1,0,ten,16,8,u,g,s,k\n");
  const auto bad = RunTide(
      {"sim", "--trace", "t.csv", "--nodes", "2", "--policy", "las", "--json", "out"}, Here());
  CHECK(bad.exit_code == tide::kExitUsage);
  CHECK(bad.err ==
        "tide: t.csv:2:5: duration_s is \"ten\"; expected a number from 0 to 1000000000\n");
  CHECK(bad.out.empty());
  CHECK_FALSE(std::filesystem::exists(path + "/out"));

  PutTrace("1,0,10,16,8,u,g,s,k\n");
  const std::vector<std::string> sim = {"sim", "--trace", "t.csv", "--nodes", "2", "--policy"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = sim;
    words.insert(words.end(), more.begin(), more.end());
    return RunTide(words, Here());
  };
  CHECK(with({"lottery"}).exit_code == tide::kExitUsage);
  CHECK(with({"fifo", "--users", "many"}).err.starts_with("tide: --users: \"many\" is not a rule"));
  CHECK(with({"fifo", "--projects", "llm"})
            .err.starts_with("tide: --projects: \"llm\" is not a rule"));
  CHECK(with({"fifo", "--saves", "share:7"}).err.starts_with("tide: --saves: \"7\" is no share"));
  CHECK(with({"fifo", "--placement", "tide"}).exit_code == tide::kExitUsage);
  CHECK(with({"fifo", "--cluster", "c.yaml"}).exit_code == tide::kExitUsage);
  CHECK(with({"time-sharing", "--faults", "none.csv"}).exit_code == tide::kExitNotFound);
  const auto large =
      RunTide({"sim", "--trace", "t.csv", "--nodes", "1", "--policy", "sjf"}, Here());
  CHECK(large.exit_code == tide::kExitNeverFits);
}

TEST_CASE_METHOD(Folder, "sim says every mistake of a cluster file in a line of its own") {
  PutTrace("1,0,10,16,8,u,g,s,k\n");
  Put("c.yaml", "version: 2\ngroups: {a: {gpus_per_node: eight}}\nzones: []\n");
  const auto bad =
      RunTide({"sim", "--trace", "t.csv", "--cluster", "c.yaml", "--policy", "fifo"}, Here());
  CHECK(bad.exit_code == tide::kExitUsage);
  CHECK_THAT(bad.err,
             Catch::StartsWith("tide: the cluster file has mistakes:\nc.yaml:1:1: ") &&
                 Catch::Contains("\nc.yaml:1:10: ") && Catch::Contains("\nc.yaml:2:29: "));
}

TEST_CASE("sim --chaos counts the worlds, tells the story of a failure and how to replay it") {
  const auto good = RunTide({"sim", "--chaos", "--seeds", "1..3"});
  CHECK(good.exit_code == tide::kExitOk);
  CHECK(good.out == "3 passed, 0 failed\n");
  const auto bad = RunTide({"sim", "--chaos", "--seeds", "1..40", "--plant", "double-allocation"});
  CHECK(bad.exit_code == tide::kExitFailed);
  CHECK(bad.out.find("replay: tide sim --chaos --plant double-allocation --seeds ") !=
        std::string::npos);
  CHECK(bad.out.ends_with(" passed, 1 failed\n"));
  const auto figures = RunTide({"sim", "-o", "json", "--chaos", "--seeds", "2"});
  CHECK(json::parse(figures.out)["passed"] == 1);
}

TEST_CASE("sim --chaos refuses seeds that are none, and other work beside it") {
  for (const char* seeds : {"", "x", "3..1", "1...4", "1..", "-1"}) {
    const auto run = RunTide({"sim", "--chaos", std::string("--seeds=") + seeds});
    CHECK(run.exit_code == tide::kExitUsage);
    CHECK(run.err.find("--seeds") != std::string::npos);
  }
  CHECK(RunTide({"sim", "--chaos", "--trace", "t.csv"}).exit_code == tide::kExitUsage);
  CHECK(RunTide({"sim", "--trace", "t.csv"}).err.find("--policy is missing") != std::string::npos);
}
