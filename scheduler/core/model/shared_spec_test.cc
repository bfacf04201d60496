#include "scheduler/core/model/shared_spec.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

JobSpec Named(const std::string& name) {
  JobSpec spec;
  spec.name = name;
  return spec;
}

TEST_CASE("jobs that were submitted with the same share it; one that is changed is its own") {
  World world(Cluster().Leaf(1));
  const JobId array = world.Submit(AJob().Count(3));
  const JobId again = world.Submit(AJob().Count(3));
  const JobId other = world.Submit(AJob().Count(3).Priority(0));
  const auto spec = [&](JobId job) { return &*world.At(job).spec; };
  CHECK(spec(array) == spec(JobId(array.value() + 2)));
  CHECK(spec(array) == spec(again));
  CHECK(spec(array) != spec(other));
  CHECK(world.state.specs.size() == 2);
  world.state.jobs.at(again).spec.Edit([](JobSpec& each) { each.name = "mine"; });
  CHECK(world.At(again).spec->name == "mine");
  CHECK(world.At(array).spec->name != "mine");
}

TEST_CASE("specs of one hash are told apart") {
  SpecPool pool;
  const SharedSpec a = pool.Intern(Named("a"), 7);
  const SharedSpec b = pool.Intern(Named("b"), 7);
  CHECK(a->name == "a");
  CHECK(b->name == "b");
  CHECK(&*pool.Intern(Named("a"), 7) == &*a);
  CHECK(&*pool.Intern(Named("b"), 7) == &*b);
}

TEST_CASE("whoever makes many of one hash shares nothing") {
  SpecPool pool;
  for (int i = 0; i < 100; ++i) {
    (void)pool.Intern(Named(std::to_string(i)), 7);
  }
  CHECK(pool.size() == 8);
}

TEST_CASE("what no job has any more is dropped") {
  SpecPool pool;
  const SharedSpec kept = pool.Intern(Named("kept"));
  for (int i = 0; i < 10'000; ++i) {
    (void)pool.Intern(Named(std::to_string(i)));
  }
  CHECK(pool.size() <= 2000);
  CHECK(&*pool.Intern(Named("kept")) == &*kept);
}

TEST_CASE("specs that differ in what jobs differ in have different hashes") {
  const uint64_t plain = HashOf(Named("a"));
  CHECK(HashOf(Named("a")) == plain);
  CHECK(HashOf(Named("b")) != plain);
  JobSpec chained = Named("a");
  chained.after = {{JobId(7), {}}};
  CHECK(HashOf(chained) != plain);
  JobSpec labelled = Named("a");
  labelled.labels = {{"fold", "3"}};
  CHECK(HashOf(labelled) != plain);
  JobSpec small = Named("a");
  small.memory_bytes_per_node = 7;
  CHECK(HashOf(small) != plain);
  JobSpec joined = Named("a");
  joined.command = {"ab", "c"};
  JobSpec split = Named("a");
  split.command = {"a", "bc"};
  CHECK(HashOf(joined) != HashOf(split));
}

}  // namespace
}  // namespace tide::testing
