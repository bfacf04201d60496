#include "sim/replay/faults.h"

#include <catch2/catch.hpp>

#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

std::string Complaint(const std::string& text) {
  const auto model = ParseFaults("f.csv", text);
  REQUIRE_FALSE(model.has_value());
  return model.error().message;
}

FaultModel Rates(const char* line) {
  return *ParseFaults("f.csv", testing::Lines({kFaultRatesHeader, line}));
}

// Faults of the first `days` on 1000 nodes.
std::vector<NodeFault> Drawn(const FaultModel& model, int64_t days, uint64_t seed) {
  FaultSource source(model, 1000, seed);
  std::vector<NodeFault> faults;
  while (const auto fault = source.Next()) {
    if (fault->at_ms > days * 86'400'000) {
      break;
    }
    faults.push_back(*fault);
  }
  return faults;
}

}  // namespace

TEST_CASE("faults: a trace, in order of time, without nodes that are not there") {
  const auto model = ParseFaults("f.csv",
                                 testing::Lines({kFaultTraceHeader,
                                                 "5,2.5,3,Hardware Failure,GPU,x",
                                                 "1,1,2,Hardware Failure,NIC,y",
                                                 "2000,1,2,Hardware Failure,Power Supply,z"}));
  REQUIRE(model.has_value());
  FaultSource source(*model, 1000, 1);
  const auto first = source.Next();
  CHECK(first->node == 1);
  CHECK(first->at_ms == 3'600'000);
  CHECK(first->what == FaultClass::kLink);
  const auto second = source.Next();
  CHECK(second->until_ms == 10'800'000);
  CHECK(second->what == FaultClass::kGpu);
  CHECK_FALSE(source.Next().has_value());
}

TEST_CASE("faults: rates give as many as they say, bursts included") {
  // 4 per 1000 node-days on 1000 nodes for 2500 days: 10,000; a standard deviation is 100, with
  // bursts of 5 about 300.
  const auto single = Drawn(Rates("gpu,4,72000,1"), 2500, 1);
  CHECK(std::abs(static_cast<double>(single.size()) - 10'000) < 500);
  const auto burst = Drawn(Rates("flash,4,5,5"), 2500, 2);
  CHECK(std::abs(static_cast<double>(burst.size()) - 10'000) < 1500);
  size_t alone = 0;
  for (size_t i = 1; i < burst.size(); ++i) {
    CHECK(burst[i].at_ms >= burst[i - 1].at_ms);
    alone += burst[i].at_ms != burst[i - 1].at_ms ? 1 : 0;
  }
  CHECK(std::abs(static_cast<double>(alone) - 2000) < 300);
}

TEST_CASE("faults: the same seed gives the same faults, the median repair is the one asked for") {
  const FaultModel model = Rates("node,4,72000,1");
  const auto a = Drawn(model, 1000, 9);
  const auto b = Drawn(model, 1000, 9);
  const auto c = Drawn(model, 1000, 10);
  REQUIRE(a.size() == b.size());
  size_t short_repairs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].at_ms == b[i].at_ms);
    CHECK(a[i].node == b[i].node);
    short_repairs += a[i].until_ms - a[i].at_ms < 72'000'000 ? 1 : 0;
  }
  CHECK(c.front().at_ms != a.front().at_ms);
  CHECK(static_cast<double>(short_repairs) / static_cast<double>(a.size()) ==
        Approx(0.5).margin(0.04));
}

TEST_CASE("faults: a number is a rate of the usual mix") {
  const auto model = ReadFaults("3.79");
  REQUIRE(model.has_value());
  double sum = 0;
  for (const FaultRate& rate : model->rates) {
    sum += rate.per_1000_node_days;
  }
  CHECK(sum == Approx(3.79));
  CHECK_FALSE(ReadFaults("0").has_value());
  CHECK_FALSE(ReadFaults("-1").has_value());
  CHECK(ReadFaults("no-such-file").error().code == ErrorCode::kNotFound);
}

TEST_CASE("faults: the files of rates in configs/ can be read") {
  for (const char* name : {"fire-flyer", "large-pretraining"}) {
    std::string path = TIDE_SOURCE_DIR "/configs/faults/";
    path += name;
    path += ".csv";
    const auto model = ReadFaults(path);
    REQUIRE(model.has_value());
    CHECK(model->rates.size() == 3);
  }
}

TEST_CASE("faults: mistakes have their place") {
  CHECK(Complaint("x\n").starts_with("f.csv:1:1: the first line is \"x\"; expected node,start_h"));
  CHECK(Complaint(testing::Lines({kFaultTraceHeader, "1,5,4,a,GPU,x"})) ==
        "f.csv:2:5: end_h comes before start_h; expected it after");
  CHECK(Complaint(testing::Lines({kFaultRatesHeader, "cpu,1,2,1"})) ==
        "f.csv:2:1: there is no class \"cpu\"; expected gpu, link, flash or node");
  CHECK(Complaint(testing::Lines({kFaultRatesHeader, "gpu,1,2,0.5"}))
            .starts_with("f.csv:2:9: burst_mean"));
}

TEST_CASE("faults: the public trace has its published rate") {
  const std::string path = testing::TracesFolder() + "/faults-400nodes-349d.csv";
  const auto model = ReadFaults(path);
  if (!model && model.error().code == ErrorCode::kNotFound) {
    WARN("skipped: there is no " << path << "; TIDE_TRACES names the folder");
    return;
  }
  REQUIRE(model.has_value());
  CHECK(model->trace.size() == 584);
  CHECK(static_cast<double>(model->trace.size()) / (400 * 349) * 1000 ==
        Approx(4.18).epsilon(0.001));
}

}  // namespace tide::sim
