#include "scheduler/server/view_bytes.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tide/v1/scheduler.pb.h"

namespace tide {
namespace {

TEST_CASE("texts that are the same are one, and go when nobody uses them") {
  SharedTexts texts;
  const SharedText first = texts.Share("behind j-7");
  CHECK(texts.Share("behind j-7") == first);
  CHECK(texts.Share("behind j-8") != first);
  CHECK(*first == "behind j-7");
  for (int i = 0; i < 100'000; ++i) {
    (void)texts.Share(std::to_string(i));
  }
  CHECK(texts.size() < 5'000);
  CHECK(texts.Share("behind j-7") == first);

  std::vector<SharedText> used;
  for (int i = 0; i < 10'000; ++i) {
    used.push_back(texts.Share("used " + std::to_string(i)));
  }
  for (int i = 0; i < 10'000; ++i) {
    CHECK(texts.Share("used " + std::to_string(i)) == used[static_cast<size_t>(i)]);
  }
}

TEST_CASE("objects in a delta are their parts, of which the later counts") {
  tide::v1::Job job;
  job.set_id(7);
  job.set_step(40);
  job.set_loss(0.5);
  job.set_total_steps(-1);
  job.mutable_spec()->set_name("train");
  tide::v1::Node node;
  node.set_name("n1");
  node.set_connected(true);
  const std::string large(100'000, 'x');
  tide::v1::Node named;
  named.set_name(large);

  std::string delta;
  AppendObject(delta,
               tide::v1::ViewDelta::kJobsFieldNumber,
               {job.SerializeAsString(), "", EncodeProgress({.step = 0, .total_steps = 100})});
  AppendObject(delta,
               tide::v1::ViewDelta::kNodesFieldNumber,
               {node.SerializeAsString(), EncodeConnection(false, {})});
  AppendObject(delta, tide::v1::ViewDelta::kNodesFieldNumber, {named.SerializeAsString()});
  AppendObject(delta, tide::v1::ViewDelta::kNodesFieldNumber, {});
  tide::v1::ViewDelta read;
  REQUIRE(read.ParseFromString(delta));
  REQUIRE(read.jobs_size() == 1);
  CHECK(read.jobs(0).id() == 7);
  CHECK(read.jobs(0).spec().name() == "train");
  CHECK(read.jobs(0).step() == 0);
  CHECK(read.jobs(0).total_steps() == 100);
  CHECK(read.jobs(0).loss() == 0);
  REQUIRE(read.nodes_size() == 3);
  CHECK(read.nodes(0).name() == "n1");
  CHECK_FALSE(read.nodes(0).connected());
  CHECK(read.nodes(1).name() == large);
  CHECK(read.nodes(2).name().empty());
}

}  // namespace
}  // namespace tide
