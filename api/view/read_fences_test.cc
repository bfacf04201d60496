#include "api/view/read_fences.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/time.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kFenceSecond = 1'000'000'000;

void Show(ViewStore& store, uint64_t rev, uint64_t term = 1) {
  v1::ViewDelta delta;
  delta.set_rev(rev);
  delta.set_term(term);
  delta.set_reset(true);
  store.Apply(delta);
}

struct World {
  World() {
    store.MarkConnected();
    Show(store, 5);
  }
  bool Read(const std::string& user, milliseconds timeout, int64_t later_ns = 0) {
    return fences.Await(store, user, timeout, MonotonicNanos() + later_ns);
  }

  ViewStore store;
  ReadFences fences;
};

TEST_CASE("a user's read waits for the user's own change, and for no other") {
  World world;
  world.fences.Note(world.store, "ada", 7);
  world.fences.Note(world.store, "ada", 6);
  CHECK(world.Read("bob", seconds(100)));  // returns at once
  std::thread scheduler([&] { Show(world.store, 7); });
  CHECK(world.Read("ada", seconds(100)));
  CHECK(world.store.Get()->rev >= 7);
  scheduler.join();
  CHECK(world.Read("ada", seconds(100)));  // nothing is noted any more
}

TEST_CASE("a read is not answered from before the user's change, however often it is asked") {
  World world;
  world.fences.Note(world.store, "ada", 7);
  CHECK_FALSE(world.Read("ada", milliseconds(1)));
  CHECK_FALSE(world.Read("ada", milliseconds(1)));
  CHECK(world.Read("ada", milliseconds(1), 61 * kFenceSecond));  // but not for ever
  CHECK(world.Read("ada", milliseconds(1)));
}

TEST_CASE("a change is not waited for without a stream, or where another scheduler leads") {
  World world;
  world.fences.Note(world.store, "ada", 7);
  world.store.MarkBroken();
  CHECK(world.Read("ada", seconds(100)));
  world.store.MarkConnected();
  CHECK(world.Read("ada", seconds(100)));
  CHECK(world.store.Get()->rev == 5);
  world.fences.Note(world.store, "ada", 9'000);
  Show(world.store, 1, 2);
  CHECK(world.Read("ada", seconds(100)));
  world.fences.Note(world.store, "ada", 3);  // a smaller one than that of before
  CHECK_FALSE(world.Read("ada", milliseconds(1)));
  Show(world.store, 3, 2);
  CHECK(world.Read("ada", seconds(100)));
}

}  // namespace
}  // namespace tide::api
