#include "sim/chaos/chaos.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iterator>

namespace tide::chaos {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr uint64_t kSeedsToCatch = 2000;  // most need a few dozen, one 1160

TEST_CASE("in chaos every rule holds, and afterwards every job finishes") {
  const char* asked = std::getenv("TIDE_SEEDS");
  ChaosOptions options;
  options.last_seed = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kSeeds;
  const ChaosResult result = RunChaos(options);
  INFO(Describe(result, "tide sim --chaos --seeds"));
  CHECK(result.failures.empty());
  CHECK(result.passed == options.last_seed);
}

TEST_CASE("the worlds are worth running: what they are for does happen") {
  ChaosOptions options;
  options.last_seed = 100;
  options.twice = false;
  ChaosResult result = RunChaos(options);
  CHECK(result.counts.jobs > options.last_seed * 5);
  CHECK(result.counts.attempts > result.counts.jobs);
  CHECK(result.counts.leaders > options.last_seed * 2);
  for (const char* what : {"agent dies before an effect",
                           "agent dies after an effect",
                           "agent of another cluster refused",
                           "bit flips",
                           "row put back",
                           "scheduler does not start on a damaged row",
                           "scheduler starts on another store",
                           "second agent begins",
                           "second agent begins on a copy",
                           "second agent refused",
                           "agent: cut off",
                           "agreement over",
                           "claim_made",
                           "clock steps",
                           "commit is slow",
                           "deadline_passed",
                           "fault_observed",
                           "incidents_forgotten",
                           "jobs_archived",
                           "node reboots",
                           "node_isolated",
                           "partition",
                           "rank hangs",
                           "scheduler dies after sending",
                           "scheduler dies: after its commit",
                           "scheduler dies: another scheduler has taken over",
                           "scheduler dies: before its commit",
                           "scheduler dies: its commit was not answered",
                           "agent: stream dropped",
                           "supervisor: lease over",
                           "witness denied",
                           "witness found",
                           "suspend_withdrawn",
                           "tasks share a node",
                           "validation beside idle nodes"}) {
    INFO(what);
    CHECK(result.counts.happened[what] > 0);
  }
}

struct Planted {
  Mutation mutation;
  const char* rule;  // that must catch it
};

TEST_CASE("each planted bug is caught by the rule that it breaks") {
  constexpr Planted kPlanted[] = {
      {Mutation::kDoubleAllocation, "C8: I1"},
      {Mutation::kPartialGang, "C2: "},
      {Mutation::kLostAck, "C3: "},
      {Mutation::kLostRow, "C3: "},
      {Mutation::kEarlyIsolation, "C1: "},
      {Mutation::kNoIsolation, "C2: "},
      {Mutation::kOldTermWrites, "C4: the leader"},
      {Mutation::kOldTermObeyed, "obeys term"},
      {Mutation::kOldEpochBelieved, "C"},
      {Mutation::kNoJournal, "C2: "},
      {Mutation::kUncommittedResume, "C6: "},
      {Mutation::kCheckpointLost, "C4: "},
      {Mutation::kNoFence, "C7: "},
      {Mutation::kNoStop, "C5: "},
      {Mutation::kFalseWitness, "C2: "},
      {Mutation::kRuleAssumed, "C2: "},
      {Mutation::kArchiveLost, "C9: "},
      {Mutation::kRowsUnproved, "C10: "},
      {Mutation::kCopyAdmitted, "C"},
      {Mutation::kStrangerObeyed, "C11: "},
  };
  REQUIRE(std::size(kPlanted) == kMutationCount - 1);
  for (const Planted& planted : kPlanted) {
    ChaosOptions options;
    options.mutation = planted.mutation;
    options.twice = false;
    bool caught = false;
    for (uint64_t seed = 1; seed <= kSeedsToCatch && !caught; ++seed) {
      options.first_seed = options.last_seed = seed;
      const ChaosResult result = RunChaos(options);
      caught = !result.failures.empty() &&
               result.failures[0].what.find(planted.rule) != std::string::npos &&
               result.failures[0].what.find("two runs") == std::string::npos;
    }
    INFO(MutationName(planted.mutation));
    CHECK(caught);
  }
}

TEST_CASE("a failure names its rule, its story and the command that replays it") {
  ChaosOptions options;
  options.mutation = Mutation::kDoubleAllocation;
  options.last_seed = 20;
  options.stop_at_first = true;
  options.story_lines = 5;
  const ChaosResult result = RunChaos(options);
  REQUIRE(result.failures.size() == 1);
  CHECK(result.failures[0].story.size() == 5);
  const std::string text = Describe(result, "tide sim --chaos --seeds");
  const std::string seed = std::to_string(result.failures[0].seed);
  CHECK(text.find("C8: I1") != std::string::npos);
  CHECK(text.find("replay: tide sim --chaos --seeds " + seed + ".." + seed) != std::string::npos);
  CHECK(text.find("1 failed\n") != std::string::npos);
}

}  // namespace
}  // namespace tide::chaos
