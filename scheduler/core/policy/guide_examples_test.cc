// The examples of docs/guide/policy.md, played: each names the words of the guide that it shows.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <sstream>

#include "scheduler/core/policy/policy_text.h"
#include "scheduler/core/policy/runners.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr Duration kMinute = Duration::Minutes(1);
constexpr Duration kHour = Duration::Minutes(60);

// Returns the text with each white space as one blank.
std::string Folded(const std::string& text) {
  std::string folded;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space || (!folded.empty() && folded.back() != ' ')) {
      folded += space ? ' ' : c;
    }
  }
  return folded;
}

// Fails when the guide does not say so any more.
void GuideSays(const std::string& words) {
  std::ifstream file(TIDE_SOURCE_DIR "/docs/guide/policy.md");
  std::ostringstream text;
  text << file.rdbuf();
  INFO("docs/guide/policy.md: " << words);
  CHECK(Folded(text.str()).find(words) != std::string::npos);
}

Policy PolicyOf(const std::string& text) {
  const ParsedPolicy parsed = ParsePolicyFile("version: 1\n" + text);
  REQUIRE(parsed.findings.empty());
  return parsed.policy;
}

bool Runs(const World& world, JobId job) {
  return world.Is(job) == JobState::kRunning;
}

// Passes time until the job runs, at most so long. Returns how long.
Duration WaitFor(World& world, JobId job, Duration most) {
  const Instant from = world.now;
  while (!Runs(world, job) && world.now - from < most) {
    world.Pass(kMinute);
  }
  return world.now - from;
}

}  // namespace

TEST_CASE("guide: the order goes down the tree of projects") {
  GuideSays(
      "Inside a class the order goes down the tree: first the project whose jobs, with all "
      "below it, used least lately over its weight");
  World world(Cluster().Leaf(1));
  world.policy = PolicyOf("projects: { research: { weight: 3 }, course: {} }\n");
  const JobId used = world.Submit(AJob().Project("research"), "ann");
  world.Pass(kHour * 2);
  world.Finish(used);  // two hours, a third of them over its weight
  const JobId course = world.Submit(AJob().Project("course"), "bob");
  world.Pass(kHour);
  const JobId later = world.Submit(AJob().Project("course"), "bob");
  const JobId first = world.Submit(AJob().Project("research"), "ann");
  world.Finish(course);
  CHECK(Runs(world, first));
  CHECK_FALSE(Runs(world, later));
}

TEST_CASE("guide: a job starts only within the limit of every row, and holds nobody up") {
  GuideSays("A job starts only if it stays within the limit of **every** row that counts it.");
  GuideSays("A job over quota holds nobody up: jobs behind it start as if it were not there.");
  World world(Cluster().Leaf(4));
  world.policy = PolicyOf(
      "projects: { llm: {} }\n"
      "quotas: [ { project: llm, nodes: 3 }, { user: ada, nodes: 1 } ]\n");
  const JobId first = world.Submit(AJob().Project("llm"), "ada");
  const JobId second = world.Submit(AJob().Project("llm"), "ada");
  const JobId behind = world.Submit(AJob().Project("llm").Nodes(2), "bob");
  CHECK(Runs(world, first));
  CHECK(std::ranges::count(world.Why(second), "quota.user") == 1);
  CHECK(Runs(world, behind));
}

TEST_CASE("guide: three of eight GPUs are 0.375 nodes") {
  GuideSays("3 of 8 GPUs are 0.375 nodes.");
  World world(Cluster().Leaf(4));
  world.policy = PolicyOf("quotas: [ { user: ada, nodes: 1 } ]\n");
  const JobId one = world.Submit(AJob().Gpus(3));
  const JobId two = world.Submit(AJob().Gpus(3));
  const JobId three = world.Submit(AJob().Gpus(3));  // 1.125
  const JobId four = world.Submit(AJob().Gpus(2));   // 1.000
  CHECK((Runs(world, one) && Runs(world, two) && Runs(world, four)));
  CHECK(world.Why(three).front() == "quota.user");
}

TEST_CASE("guide: who is within his quota takes nodes back from a borrower") {
  GuideSays("may take the nodes of a borrower of its class once that has run for `minimum_run`");
  World world(Cluster().Leaf(4));
  world.policy = PolicyOf(
      "projects: { a: {}, b: {} }\n"
      "quotas: [ { project: a, nodes: 2, borrow: true }, { project: b, nodes: 2, borrow: true } "
      "]\n");
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(world.Submit(AJob().Project("a"), "ann"));
    world.Pass(kMinute);
  }
  const JobId owner = world.Submit(AJob().Project("b"), "bob");
  CHECK(WaitFor(world, owner, kHour) <= world.policy.minimum_run + kMinute);
  CHECK(Runs(world, owner));
  CHECK((Runs(world, jobs[0]) && Runs(world, jobs[1])));  // those that started last borrow
}

TEST_CASE("guide: nobody is stopped when a row is lowered, but he is the first victim") {
  GuideSays(
      "When a row ends or is lowered, nobody is stopped. Who is beyond the limit, last "
      "started first, is the first victim of its class from then on.");
  World world(Cluster().Leaf(3));
  const JobId first = world.Submit(AJob(), "ada");
  world.Pass(kMinute);
  const JobId last = world.Submit(AJob(), "ada");
  world.Pass(kMinute);
  const JobId other = world.Submit(AJob(), "bob");  // the victim, but for the row
  world.policy = PolicyOf("quotas: [ { user: ada, nodes: 1 } ]\n");
  world.Pass(kHour);
  CHECK((Runs(world, first) && Runs(world, last)));
  CHECK(Runs(world, world.Submit(AJob().Priority(30), "eve")));
  CHECK_FALSE(Runs(world, last));
  CHECK((Runs(world, first) && Runs(world, other)));
}

TEST_CASE("guide: a job of class auto stands in the highest class with quota left") {
  GuideSays(
      "A job of class `auto` stands in the highest class for which a row that names this "
      "class guarantees enough nodes");
  World world(Cluster().Leaf(2));
  world.policy = PolicyOf(
      "projects: { courses: {} }\n"
      "quotas: [ { project: courses, class: high, nodes: 1 } ]\n");
  const JobId normal = world.Submit(AJob().Nodes(2), "bob");
  const JobId one = world.Submit(AJob().Project("courses").Priority(-1), "ann");
  CHECK(Runs(world, one));  // as high
  CHECK_FALSE(Runs(world, normal));
  const JobId two = world.Submit(AJob().Project("courses").Priority(-1).Nodes(2), "ann");
  world.Finish(one);
  CHECK(Runs(world, normal));
  CHECK_FALSE(Runs(world, two));  // as low: the row guarantees one node
}

TEST_CASE("guide: above-normal falls to normal after 30 minutes") {
  GuideSays("It replaces the default, `above-normal` to `normal` after 30 minutes");
  World world(Cluster().Leaf(1));
  const JobId above = world.Submit(AJob().Priority(20), "ann");
  world.Pass(kMinute * 29);
  const JobId normal = world.Submit(AJob().Priority(20), "bob");
  CHECK(Runs(world, above));
  world.Pass(kMinute * 2);
  CHECK(Runs(world, normal));  // the other is of a lower class now
}

TEST_CASE("guide: a ten-minute job takes its turn after a quarter of an hour") {
  GuideSays(
      "A ten-minute job comes to a full cluster whose jobs have run for hours without a "
      "wait. After 15 minutes it was slowed down twofold, and a job leaves for it. It ends "
      "after ten minutes, the other goes on.");
  World world(Cluster().Leaf(2));
  const JobId stays = world.Submit(AJob(), "bob");
  const JobId leaves = world.Submit(AJob(), "bob");
  world.Pass(kHour * 5);
  const JobId job = world.Submit(AJob(), "eve");
  const Duration waited = WaitFor(world, job, kHour);
  CHECK((waited >= kMinute * 15 && waited <= kMinute * 17));
  const int64_t slowdown = SlowdownOf(world.At(job)).At(world.now, world.policy.minimum_run);
  CHECK((slowdown >= 2 * kNotSlowed && slowdown <= 2 * kNotSlowed + 100));
  world.Pass(kMinute * 10);
  CHECK(Runs(world, stays) != Runs(world, leaves));
  world.Finish(job);
  CHECK((Runs(world, stays) && Runs(world, leaves)));
}

TEST_CASE("guide: a gang of all nodes starts beside a stream of small jobs") {
  GuideSays("A gang of all nodes waits beside a stream of small jobs that fills the cluster.");
  GuideSays("it starts within two hours.");
  World world(Cluster().Leaf(4));
  std::vector<JobId> small;
  for (int i = 0; i < 6; ++i) {
    small.push_back(world.Submit(AJob(), "user" + std::to_string(i)));
  }
  const JobId gang = world.Submit(AJob().Nodes(4), "eve");
  const Instant from = world.now;
  for (int minute = 0; !Runs(world, gang) && minute < 240; ++minute) {
    world.Pass(kMinute);
    if (minute % 3 == 0) {  // one ends, one comes
      for (const JobId job : small) {
        if (Runs(world, job)) {
          world.Finish(job);
          break;
        }
      }
      small.push_back(world.Submit(AJob(), "a" + std::to_string(minute)));
    }
  }
  CHECK(Runs(world, gang));
  CHECK(world.now - from <= kHour * 2);
}

TEST_CASE("guide: two users with long jobs each hold half") {
  GuideSays(
      "Two users with long jobs for the whole cluster each: each holds half of it on any "
      "day.");
  World world(Cluster().Leaf(4));
  for (int i = 0; i < 4; ++i) {
    (void)world.Submit(AJob(), "ann");
  }
  world.Pass(kHour * 10);
  for (int i = 0; i < 4; ++i) {
    (void)world.Submit(AJob(), "bob");
  }
  world.Pass(kHour * 3);
  Duration anns;
  constexpr int kDay = 24 * 60;
  for (int minute = 0; minute < kDay; ++minute) {
    for (const auto& [id, job] : world.state.jobs) {
      anns = anns + (Runs(world, id) && job.user == "ann" ? kMinute : Duration());
    }
    world.Pass(kMinute);
  }
  CHECK(anns >= kMinute * (kDay * 4 * 45 / 100));
  CHECK(anns <= kMinute * (kDay * 4 * 55 / 100));
}

TEST_CASE("guide: each turn is longer than the one before") {
  GuideSays(
      "A job that ran ten hours leaves for one of another owner who has nothing. It comes "
      "back when it was slowed down twice as much as that one: each turn is longer than the "
      "one before.");
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob(), "ann");
  world.Pass(kHour * 10);
  const JobId second = world.Submit(AJob(), "bob");
  const auto slowdown = [&](JobId job) {
    return SlowdownOf(world.At(job)).At(world.now, world.policy.minimum_run);
  };
  CHECK(WaitFor(world, second, kHour) <= kMinute * 17);
  const Duration back = WaitFor(world, first, kHour * 24);
  REQUIRE(Runs(world, first));
  CHECK(slowdown(first) >= 2 * slowdown(second) * 99 / 100);
  const Duration again = WaitFor(world, second, kHour * 24);
  REQUIRE(Runs(world, second));
  CHECK(again > back);
}

TEST_CASE("guide: work that would be lost makes a turn dearer") {
  GuideSays(
      "A job has run for an hour and never saved: who waits must have been slowed down ten "
      "times as much, which takes three hours; by then it has run four, and 34 times is "
      "needed.");
  World world(Cluster().Leaf(1));
  world.agents.prepares = false;
  const JobId runs = world.Submit(AJob(), "ann");
  const auto times = [&] {
    return LeastFor(
               kNotSlowed, world.now - world.At(runs).attempts.back().running_at, world.policy) /
           kNotSlowed;
  };
  world.Pass(kHour);
  CHECK(times() == 10);
  const JobId waits = world.Submit(AJob(), "bob");
  world.Pass(kHour * 3);
  CHECK(times() == 34);
  CHECK(SlowdownOf(world.At(waits)).At(world.now, world.policy.minimum_run) >= 10 * kNotSlowed);
  world.Pass(kHour * 24);
  CHECK(Runs(world, runs));
  world.Saved(runs, 7);  // from now on it is known to save
  world.Pass(kMinute * 3);
  CHECK(Runs(world, waits));
}

TEST_CASE("guide: a failed job's retry takes nobody's nodes") {
  GuideSays(
      "A job that failed and is tried again takes nobody's nodes, of lower classes neither: "
      "it starts on what is free or left.");
  World world(Cluster().Leaf(1));
  const JobId fails = world.Submit(AJob().Priority(30).RetryFailure(3), "ann");
  world.Exit(fails, 0, ExitReason::kFailed, 1);
  const JobId low = world.Submit(AJob().Priority(0), "bob");
  REQUIRE(Runs(world, low));
  world.Pass(kHour);
  CHECK(Runs(world, low));
  world.Finish(low);
  CHECK(Runs(world, fails));
}

}  // namespace tide::testing
