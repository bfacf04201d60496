// What `tide sim` says to input that does not fit together.

#include "sim/simulate.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "sim/results.h"

namespace tide::sim {
namespace {

struct Fixture {
  Fixture() : path((std::filesystem::temp_directory_path() / "tide-simulate-test.csv").string()) {
    std::string text = kTraceHeader;
    text += "\n3,0,100,16,8,u,g,s,k\n";
    REQUIRE(WriteFileDurably(path, text));
    options.trace = path;
    options.nodes = 2;
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() { std::filesystem::remove(path); }

  [[nodiscard]] std::string Refusal() const {
    const auto simulation = Simulate(options);
    return simulation ? "accepted" : simulation.error().message;
  }

  std::string path;
  SimOptions options;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "simulate: a mix without a job is refused") {
  options.trace.clear();
  options.mix_days = 0.0001;
  options.nodes = 1;
  CHECK(Refusal().starts_with("a mix of so few days on so few nodes has no job"));
}

TEST_CASE_METHOD(Fixture, "simulate: every policy runs a job that fits alone") {
  for (const std::string& policy : PolicyNames()) {
    options.policy = policy;
    const auto simulation = Simulate(options);
    REQUIRE(simulation.has_value());
    const Results results = Summarize(simulation->run);
    CHECK(results.policy == policy);
    CHECK(results.jct_s.mean == Approx(100).margin(1));  // srtf and las see ends a second late
  }
}

TEST_CASE_METHOD(Fixture, "simulate: a job larger than the cluster names its line") {
  options.nodes = 1;
  options.policy = "fifo";
  CHECK(Refusal() == path +
                         ":2:1: job 3 asks for 16 GPUs, the cluster has 8: give it a larger "
                         "cluster");
  options.policy = "time-sharing";
  CHECK(Refusal() == path +
                         ":2:1: job 3 asks for 16 GPUs, 8 on a node; a job may have 1 nodes: "
                         "give it a larger cluster");
  options.nodes = 4;
  options.gpus_per_node = 4;
  CHECK(Refusal().find("8 on a node; its nodes have 4") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "simulate: options that do not go together") {
  options.policy = "fifo";
  options.faults = "4";
  CHECK(Refusal() == "--faults needs --policy time-sharing: the references know no faults");
  options.policy = "time-sharing";
  options.faults = "";
  options.save_s = 70;
  CHECK(Refusal().starts_with("--save-s is 70, more than the 60 s"));
  options.save_s.reset();
  options.nodes = 0;
  CHECK(Refusal().starts_with("a simulation needs a cluster"));
  options.cluster = "no-such-file.yaml";
  CHECK(Refusal().find("no-such-file.yaml") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "simulate: a cluster file gives zones and their limit") {
  options.cluster = TIDE_SOURCE_DIR "/configs/fire-flyer.yaml";
  options.nodes = 0;
  const auto simulation = Simulate(options);
  REQUIRE(simulation.has_value());
  CHECK(Summarize(simulation->run).capacity_gpu_ms == int64_t{10'000} * 100'000);
}

TEST_CASE_METHOD(Fixture, "simulate: quotas of a policy file count for projects of the trace") {
  std::string text = kTraceHeader;
  for (const char* job : {"a", "b"}) {
    text += std::string("\n") + job + ",0,100,8,8,u,llm,s,k";
  }
  REQUIRE(WriteFileDurably(path, text + "\n"));
  const std::string policy = path + ".policy";
  REQUIRE(WriteFileDurably(
      policy,
      "version: 1\nprojects:\n  llm: {weight: 1}\nquotas:\n  - {project: llm, nodes: 1}\n"));
  options.policy_file = policy;
  const auto last_end = [&](ProjectRule projects) {
    options.projects = projects;
    const auto simulation = Simulate(options);
    REQUIRE(simulation.has_value());
    return Summarize(simulation->run).makespan_s;
  };
  CHECK(last_end(ProjectRule::kNone) == Approx(100).margin(1));
  CHECK(last_end(ProjectRule::kColumn) == Approx(200).margin(1));
  std::filesystem::remove(policy);
}

}  // namespace tide::sim
