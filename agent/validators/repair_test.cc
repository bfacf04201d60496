#include "agent/validators/repair.h"

#include <catch2/catch.hpp>

#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

std::vector<std::string> StepsOf(const std::vector<RepairOrder>& orders) {
  std::vector<std::string> steps;
  for (const RepairOrder& order : orders) {
    steps.push_back(order.step);
  }
  return steps;
}

void WriteRepair(const Folder& folder, const std::string& step, const std::string& body) {
  folder.Write("tide-repair-" + step, "#!/bin/sh\n" + body + "\n", 0700);
}

TEST_CASE("repairs are those for which there is a program, a reboot last", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reboot", "exit 0");
  WriteRepair(folder, "reset_gpu", "exit 0");
  folder.Write("tide-repair-replace_gpu", "a note", 0600);
  const auto possible = PossibleRepairs({{"reboot", {}},
                                         {"replace_gpu", {}},
                                         {"cabling", {}},
                                         {"../reset_gpu", {}},
                                         {"", {}},
                                         {"reset_gpu", {"0000:a1:00", "--all"}}},
                                        folder.path());
  CHECK(StepsOf(possible) == std::vector<std::string>{"reset_gpu", "reboot"});
  CHECK(possible.at(0).devices == std::vector<std::string>{"0000:a1:00"});
}

TEST_CASE("a repair is given the devices, and says what it did", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "echo begin; echo \"reset $*\" >&2");
  const auto verdicts = RunRepairs({{"reset_gpu", {"0000:a1:00", "0000:a2:00"}}}, folder.path());
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].validator == "repair-reset_gpu");
  CHECK(verdicts[0].outcome == Outcome::kPass);
  CHECK(verdicts[0].evidence == "reset 0000:a1:00 0000:a2:00");
}

TEST_CASE("a repair that fails is the last one", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "printf 'in use by \\377pid 7\\n\\n'; exit 3");
  WriteRepair(folder, "reboot", "exit 0");
  const auto verdicts = RunRepairs({{"reset_gpu", {}}, {"reboot", {}}}, folder.path());
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].outcome == Outcome::kFail);
  CHECK(Has(verdicts[0].evidence, "exited with status 3: in use by "));
  CHECK(Has(verdicts[0].evidence, "pid 7"));
}

TEST_CASE("a repair that was stopped has not worked", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "sleep 1000");
  StopSignal stop;
  stop.Raise();
  CHECK(RunRepairs({{"reset_gpu", {}}}, folder.path(), &stop).empty());
}

}  // namespace
}  // namespace tide::validators
