#include "proto/wire/topology.h"

#include <array>
#include <map>
#include <string_view>

namespace tide::wire {
namespace {

const NodeIdentity& NodeOf(const ClusterState& state, const Task& task) {
  return state.nodes[task.node.value()].identity;
}

// [["A",2],["B",1]] from A, A, B. Names of nodes, leaves and zones are plain (a node does not join
// with others), so they need no escaping.
class Runs {
 public:
  // A name that `begins` a run begins one even if the last run has the same name.
  void Add(const std::string& name, bool begins) {
    if (count_ > 0 && !begins && name == name_) {
      ++count_;
      return;
    }
    Flush();
    name_ = name;
    count_ = 1;
  }
  [[nodiscard]] std::string Take() {
    Flush();
    return "[" + json_ + "]";
  }

 private:
  void Flush() {
    if (count_ > 0) {
      json_ += (json_.empty() ? "[\"" : ",[\"") + name_ + "\"," + std::to_string(count_) + "]";
    }
    count_ = 0;
  }

  std::string name_;
  size_t count_ = 0;
  std::string json_;
};

std::string TreesJson(const CommPlan& plan) {
  std::string json;
  for (const auto& parents : plan.parents) {
    json += json.empty() ? "[[" : "],[";
    for (size_t i = 0; i < parents.size(); ++i) {
      json += (i > 0 ? "," : "") + std::to_string(parents[i]);
    }
  }
  return json + "]]";
}

std::string PairsJson(const CrossZonePairs& pairs) {
  return R"({"plan":)" + std::to_string(pairs.plan) + R"(,"ring":)" + std::to_string(pairs.ring) +
         R"(,"nccl_tree":)" + std::to_string(pairs.nccl_tree) + "}";
}

struct Part {
  std::string_view key;
  std::string json;
};

}  // namespace

std::vector<uint32_t> ZonesOf(const ClusterState& state, const Attempt& attempt) {
  std::map<std::string_view, uint32_t> numbers;
  std::vector<uint32_t> zones;
  zones.reserve(attempt.tasks.size());
  for (const Task& task : attempt.tasks) {
    const auto next = static_cast<uint32_t>(numbers.size());
    zones.push_back(numbers.emplace(NodeOf(state, task).zone, next).first->second);
  }
  return zones;
}

std::string TopologyJson(const ClusterState& state, const Job& job) {
  const Attempt& attempt = job.attempts.back();
  const std::vector<uint32_t> zones = ZonesOf(state, attempt);
  Runs zone_runs;
  Runs leaf_runs;
  std::string names;
  for (size_t i = 0; i < attempt.tasks.size(); ++i) {
    const NodeIdentity& node = NodeOf(state, attempt.tasks[i]);
    zone_runs.Add(node.zone, false);
    leaf_runs.Add(node.leaf, i > 0 && zones[i] != zones[i - 1]);
    names += (i > 0 ? ",\"" : "\"") + node.name + "\"";
  }
  // What can be spared first stands last.
  std::array<Part, 4> parts = {Part{"zones", zone_runs.Take()},
                               Part{"leaves", leaf_runs.Take()},
                               Part{"trees", TreesJson(MakeCommPlan(zones))},
                               Part{"nodes", "[" + names + "]"}};
  std::string json = R"({"version":1,"ranks_per_node":)" +
                     std::to_string(job.spec->ranks_per_node) + R"(,"cross_zone_pairs":)" +
                     PairsJson(CountCrossZonePairs(zones));
  constexpr size_t kAround = 64;  // keys, commas and `null`s
  size_t length = json.size() + kAround;
  for (const Part& part : parts) {
    length += part.json.size();
  }
  for (size_t i = parts.size(); i > 0 && length > kTopologyBytesMax; --i) {
    length -= parts[i - 1].json.size();
    parts[i - 1].json = "null";
  }
  for (const Part& part : parts) {
    json += ",\"" + std::string(part.key) + "\":" + part.json;
  }
  return json + "}";
}

const std::string& TopologyCache::Of(const ClusterState& state, const Job& job) {
  const Epoch epoch = job.attempts.back().epoch;
  if (json_.empty() || job_ != job.id || epoch_ != epoch) {
    json_ = TopologyJson(state, job);
    job_ = job.id;
    epoch_ = epoch;
  }
  return json_;
}

}  // namespace tide::wire
