#include "cli/submission.h"

#include <catch2/catch.hpp>

#include "common/spec/job_spec.h"

using namespace tide;
using namespace tide::cli;

TEST_CASE("the script of a command is found where it can be told") {
  struct Case {
    std::vector<std::string> argv;
    std::optional<std::string> script;
  };
  const Case cases[] = {
      {{"python3", "train.py", "--lr", "1"}, "train.py"},
      {{"python", "-u", "train.py"}, "train.py"},
      {{"/usr/bin/python3.11", "/a/train.py"}, "/a/train.py"},
      {{"bash", "go.sh"}, "go.sh"},
      {{"sh", "-x", "go.sh"}, "go.sh"},
      {{"python", "-c", "x.py"}, std::nullopt},
      {{"python", "-m", "pkg.py"}, std::nullopt},
      {{"python", "folder"}, std::nullopt},
      {{"bash", "-c", "./go.sh"}, std::nullopt},
      {{"./train.py"}, std::nullopt},
      {{"env", "python", "train.py"}, std::nullopt},
      {{"python"}, std::nullopt},
      {{}, std::nullopt},
  };
  for (const Case& each : cases) {
    CHECK(ScriptOf(each.argv) == each.script);
  }
}

TEST_CASE("a job is named after its script or program") {
  CHECK(NameFor({"python", "dir/Train_7B.py"}) == "train_7b");
  CHECK(NameFor({"/usr/bin/env"}) == "env");
  CHECK(NameFor({"--odd"}) == "odd");
  CHECK(NameFor({"训练"}) == "job");
  CHECK(NameFor({}) == "job");
  CHECK(NameFor({std::string(200, 'x')}).size() == 63);
  JobSpec spec;
  spec.command = {"x y\nz!"};
  spec.name = NameFor(spec.command);
  CHECK(CheckJobSpec(spec).empty());
}

TEST_CASE("scripts are looked up from the job's folder") {
  CHECK(ScriptExists("proc", "/"));
  CHECK(ScriptExists("/proc", "/nowhere"));
  CHECK_FALSE(ScriptExists("no-such-script.py", "/"));
}
