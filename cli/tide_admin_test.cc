// The program for those who run a cluster; no server is needed.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/testing/run_tide.h"
#include "common/base/exit_codes.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

const std::string kFireFlyer = std::string(TIDE_SOURCE_DIR) + "/configs/fire-flyer.yaml";

RunOutcome Check(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"admin", "topology", "check", file};
  args.insert(args.end(), more.begin(), more.end());
  return RunTide(args);
}

}  // namespace

TEST_CASE("admin topology check says what a cluster file describes") {
  const auto run = Check(kFireFlyer);
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(run.out.starts_with("fire-flyer: 1250 nodes; cross-zone jobs at a time: 1, 8 links from "));
  CHECK(run.out.find("A         40    625     15-16  5000  a100\n") != std::string::npos);
  CHECK(run.out.find("a100    1250          8  A100-PCIe-40GB    64         512\n") !=
        std::string::npos);
  const json object = json::parse(Check(kFireFlyer, {"-o", "json"}).out);
  CHECK(object["nodes"] == 1250);
  CHECK(object["zones"][1]["gpus"] == 5000);
  const auto names = Check(kFireFlyer, {"-o", "name"});
  CHECK(names.out.starts_with("a-l01-n01\na-l01-n02\n"));
  CHECK(std::count(names.out.begin(), names.out.end(), '\n') == 1250);
}

TEST_CASE("admin topology check names each mistake with its place") {
  const std::string readme = std::string(TIDE_SOURCE_DIR) + "/configs/README.md";
  const auto prose = Check(readme);
  CHECK(prose.exit_code == 2);
  CHECK(prose.out.empty());
  CHECK(prose.err.starts_with(readme + ":"));
  const auto gone = Check("/nowhere.yaml");
  CHECK(gone.exit_code == 3);
  CHECK(gone.err == "tide: /nowhere.yaml: no such file\n");
  CHECK(RunTide({"admin"}).exit_code == 2);
  CHECK(RunTide({"admin", "topology"}).exit_code == 2);
  CHECK(RunTide({"admin", "topology", "check"}).exit_code == 2);
}

TEST_CASE("admin backup and its like hand every word on to tide-admin") {
  const auto help = RunTide({"admin", "backup", "--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.out.find("--store-file") != std::string::npos);
  const auto all = RunTide({"admin", "--help"});
  for (const char* verb : {"topology", "backup", "restore", "snapshot", "migrate"}) {
    CHECK(all.out.find(verb) != std::string::npos);
  }
  const auto incomplete = RunTide({"admin", "backup", "file"});
  CHECK(incomplete.exit_code == tide::kExitUsage);
  CHECK(incomplete.err.starts_with("tide admin: "));
  const auto unknown = RunTide({"admin", "migrate", "-o", "json", "--store", "sqlite:/nowhere/t"});
  CHECK(unknown.exit_code == tide::kExitUsage);
  const auto gone = RunTide({"admin", "migrate", "--check", "--store", "sqlite:/nowhere/t"});
  CHECK(gone.exit_code == tide::kExitStore);
  CHECK(gone.err == "tide admin: /nowhere/t: no such file: check the path of --store\n");
}
