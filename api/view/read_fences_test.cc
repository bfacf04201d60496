#include "api/view/read_fences.h"

#include <catch2/catch.hpp>
#include <thread>

namespace tide::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void Show(ViewStore& store, uint64_t rev) {
  v1::ViewDelta delta;
  delta.set_rev(rev);
  delta.set_reset(true);
  store.Apply(delta);
}

TEST_CASE("a user's read waits for the user's own change, and for no other") {
  ViewStore store;
  store.MarkConnected();
  Show(store, 5);
  ReadFences fences;
  fences.Note("ada", 7);
  fences.Note("ada", 6);
  CHECK(fences.Await(store, "bob", seconds(100)));  // returns at once
  std::thread scheduler([&] { Show(store, 7); });
  CHECK(fences.Await(store, "ada", seconds(100)));
  CHECK(store.Get()->rev >= 7);
  scheduler.join();
  CHECK(fences.Await(store, "ada", seconds(100)));  // nothing is noted any more
}

TEST_CASE("a change that is not shown in time, or whose leader is gone, holds nobody up twice") {
  ViewStore store;
  store.MarkConnected();
  Show(store, 5);
  ReadFences fences;
  fences.Note("ada", 7);
  CHECK_FALSE(fences.Await(store, "ada", milliseconds(1)));
  CHECK(fences.Await(store, "ada", seconds(100)));
  fences.Note("ada", 8);
  store.MarkBroken();
  CHECK(fences.Await(store, "ada", seconds(100)));
  store.MarkConnected();
  CHECK(fences.Await(store, "ada", seconds(100)));
  CHECK(store.Get()->rev == 5);
}

}  // namespace
}  // namespace tide::api
