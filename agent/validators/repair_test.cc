#include "agent/validators/repair.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

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

TEST_CASE("after a repair that fails the others run", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "printf 'in use by \\377pid 7\\n\\n'; exit 3");
  WriteRepair(folder, "file_system_check", "exit 0");
  const auto verdicts = RunRepairs({{"reset_gpu", {}}, {"file_system_check", {}}}, folder.path());
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].outcome == Outcome::kFail);
  CHECK(Has(verdicts[0].evidence, "exited with status 3: in use by "));
  CHECK(Has(verdicts[0].evidence, "pid 7"));
  CHECK(verdicts[1].outcome == Outcome::kPass);
}

TEST_CASE("a reboot that was ordered and did not come is no repair", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reboot", "echo ordered; echo > \"$0.ran\"");
  StopSignal stop;
  // Stops it as the agent's end does, after the program has run.
  std::thread end([&] {
    while (::access((folder.path() + "/tide-repair-reboot.ran").c_str(), F_OK) != 0) {
      std::this_thread::yield();
    }
    stop.Raise();
  });
  const auto verdicts = RunRepairs({{"reboot", {}}}, folder.path(), &stop);
  end.join();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].outcome == Outcome::kFail);
}

TEST_CASE("an order whose devices are none is not run for all", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "exit 0");
  CHECK(PossibleRepairs({{"reset_gpu", {"--all"}}}, folder.path()).empty());
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
