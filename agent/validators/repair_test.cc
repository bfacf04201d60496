#include "agent/validators/repair.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

void WriteRepair(const Folder& folder, const std::string& step, const std::string& body) {
  folder.Write("tide-repair-" + step, "#!/bin/sh\n" + body + "\n", 0700);
}

RepairRequest RequestIn(const Folder& folder, const std::string& id = "r1") {
  return {id, folder.path(), folder.path() + "/repaired", folder.path() + "/lock", "boot-1", ""};
}

std::string RunsOf(const Folder& folder) {
  return ReadFile(folder.path() + "/runs").value_or("");
}

// A repair that leaves a line of its arguments each time that it runs.
void WriteCountedRepair(const Folder& folder, const std::string& step) {
  WriteRepair(folder, step, "echo \"" + step + " $*\" >> " + folder.path() + "/runs");
}

TEST_CASE("a repair is given the devices, and says what it did", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "echo begin; echo \"reset $*\" >&2");
  const Verdict verdict =
      RunRepair({"reset_gpu", {"0000:a1:00", "--all", "0000:a2:00"}}, RequestIn(folder));
  CHECK(verdict.validator == "repair-reset_gpu");
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK(verdict.evidence == "reset 0000:a1:00 0000:a2:00");
}

TEST_CASE("a repair that fails says how", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "printf 'in use by \\377pid 7\\n\\n'; exit 3");
  const Verdict verdict = RunRepair({"reset_gpu", {}}, RequestIn(folder));
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "exited with status 3: in use by "));
  CHECK(Has(verdict.evidence, "pid 7"));
}

TEST_CASE("a reboot comes last", "[repair]") {
  const auto orders = RebootLast({{"reboot", {}}, {"reset_gpu", {}}, {"check_disk", {}}});
  CHECK(orders.at(0).step == "reset_gpu");
  CHECK(orders.at(1).step == "check_disk");
  CHECK(orders.at(2).step == "reboot");
}

TEST_CASE("a step that cannot be run is skipped, and may be ordered again", "[repair]") {
  const Folder folder;
  RepairRequest request = RequestIn(folder);
  WriteCountedRepair(folder, "reset_gpu");
  SECTION("no program") {
    folder.Write("tide-repair-replace_gpu", "a note", 0600);
    folder.Write("tide-repair-no_shell", "#!/nowhere/sh\n", 0700);
    for (const char* step : {"replace_gpu", "cabling", "../reset_gpu", "", "no_shell"}) {
      INFO(step);
      const Verdict verdict = RunRepair({step, {}}, request);
      CHECK(verdict.validator == "repair-" + std::string(step));
      CHECK(verdict.outcome == Outcome::kSkipped);
      CHECK_FALSE(verdict.evidence.empty());
    }
  }
  SECTION("no device: it is not run for all") {
    CHECK(RunRepair({"reset_gpu", {"--all"}}, request).outcome == Outcome::kSkipped);
  }
  SECTION("no note") {
    request.note = folder.path() + "/nowhere/repaired";
    CHECK(RunRepair({"reset_gpu", {}}, request).outcome == Outcome::kSkipped);
  }
  SECTION("no lock") {
    request.lock = folder.path() + "/nowhere/lock";
    CHECK(RunRepair({"reset_gpu", {}}, request).outcome == Outcome::kSkipped);
  }
  CHECK(RunsOf(folder).empty());
  CHECK(RunRepair({"reset_gpu", {}}, RequestIn(folder)).outcome == Outcome::kPass);
  CHECK(RunsOf(folder) == "reset_gpu \n");
}

TEST_CASE("a request that is repeated does the steps that were not begun, and none twice",
          "[repair]") {
  const Folder folder;
  for (const char* step : {"reset_gpu", "check_disk", "cabling"}) {
    WriteCountedRepair(folder, step);
  }
  RepairRequest request = RequestIn(folder);
  CHECK(RunRepair({"reset_gpu", {}}, request).outcome == Outcome::kPass);
  // Here the agent is killed: the next one knows what is on disk, and is told the same.
  const Verdict known = RunRepair({"reset_gpu", {}}, request);
  CHECK(known.outcome == Outcome::kWarn);
  CHECK(known.evidence == "begun by an agent that ended meanwhile; how it went is not known");
  CHECK(RunRepair({"check_disk", {}}, request).outcome == Outcome::kPass);
  CHECK(RunsOf(folder) == "reset_gpu \ncheck_disk \n");

  // The one that had to be killed is the last one.
  request.left_failure = "did not end";
  CHECK(RunRepair({"reset_gpu", {}}, request).outcome == Outcome::kWarn);
  CHECK(RunRepair({"check_disk", {}}, request).outcome == Outcome::kFail);
  CHECK(RunRepair({"cabling", {}}, request).outcome == Outcome::kPass);

  CHECK(RunRepair({"reset_gpu", {}}, RequestIn(folder, "r2")).outcome == Outcome::kPass);
  CHECK(RunsOf(folder) == "reset_gpu \ncheck_disk \ncabling \nreset_gpu \n");
}

TEST_CASE("a step is not run where the note of those that were cannot be read", "[repair]") {
  const Folder folder;
  WriteCountedRepair(folder, "reset_gpu");
  RepairRequest request = RequestIn(folder);
  request.note = folder.path();
  CHECK(RunRepair({"reset_gpu", {}}, request).outcome == Outcome::kFail);
  CHECK(RunsOf(folder).empty());
}

TEST_CASE("a reboot that was ordered and did not come is no repair", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reboot", "echo ordered; echo > \"$0.ran\"");
  const RepairRequest request = RequestIn(folder);
  StopSignal stop;
  // Stops it as the agent's end does, after the program has run.
  std::thread end([&] {
    while (::access((folder.path() + "/tide-repair-reboot.ran").c_str(), F_OK) != 0) {
      std::this_thread::yield();
    }
    stop.Raise();
  });
  const Verdict verdict = RunRepair({"reboot", {}}, request, &stop);
  end.join();
  CHECK(verdict.outcome == Outcome::kFail);

  // The agent's end was that of the agent alone: the machine's may still come.
  const Verdict again = RunRepair({"reboot", {}}, request, &stop);
  CHECK(again.outcome == Outcome::kFail);
  CHECK(Has(again.evidence, "the node was not rebooted"));

  RepairRequest rebooted = request;
  rebooted.boot_id = "boot-2";
  CHECK(RunRepair({"reboot", {}}, rebooted).outcome == Outcome::kPass);
}

TEST_CASE("a repair that was stopped has not worked", "[repair]") {
  const Folder folder;
  WriteRepair(folder, "reset_gpu", "sleep 1000");
  StopSignal stop;
  stop.Raise();
  CHECK(RunRepair({"reset_gpu", {}}, RequestIn(folder), &stop).outcome == Outcome::kFail);
}

}  // namespace
}  // namespace tide::validators
