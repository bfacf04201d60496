// Is what `tide why` says true? Random worlds of unlike nodes, quotas and jobs that want GPUs, CPUs
// and memory; each advice is followed on a copy, each refusal is checked against every node, and
// nobody may be asked to leave before the time that was named. TIDE_SEEDS=N runs more seeds.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "common/base/prng.h"
#include "common/spec/zone_rule.h"
#include "scheduler/core/policy/job_class.h"
#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/policy/runners.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr uint64_t kSeeds = 1000;
constexpr int kActs = 40;
constexpr uint64_t kGib = 1ULL << 30U;

Cluster RandomCluster(Prng& prng) {
  Cluster cluster;
  for (uint64_t zone = 0; zone <= prng.Below(3); ++zone) {
    cluster.Zone(std::string(1, static_cast<char>('A' + zone)));
    for (uint64_t leaf = 0; leaf <= prng.Below(2); ++leaf) {
      cluster.Leaf(static_cast<uint32_t>(1 + prng.Below(3)));
    }
  }
  return cluster;
}

class AdviceWorld : public World {
 public:
  std::map<std::string, size_t> followed;  // how often each kind of advice was tried
  std::map<std::string, std::vector<std::string>> broken;  // by kind: what was not true
  size_t refused = 0;                                      // submissions
  size_t promises = 0;                                     // times that were named

  explicit AdviceWorld(Prng& prng) : World(RandomCluster(prng)), prng_(prng) {
    if (prng_.Below(2) == 0) {
      for (uint32_t node = 0; node < state.nodes.size(); ++node) {
        Resize(node, RandomCapacity());
      }
    }
    if (prng_.Below(3) == 0) {
      LimitRandomly();
    }
    if (prng_.Below(3) == 0) {
      BoundRandomly(prng_, policy);
    }
  }

  void Act() {
    switch (prng_.Below(9)) {
      case 0: {
        const std::set<JobId> live = state.live;
        for (const JobId id : live) {
          if (prng_.Below(3) == 0 && state.live.contains(id) && Is(id) == JobState::kRunning) {
            Finish(id);
          }
        }
        break;
      }
      case 8: {
        const std::set<JobId> live = state.live;
        for (const JobId id : live) {
          if (prng_.Below(3) == 0 && state.live.contains(id) && Is(id) == JobState::kRunning) {
            Exit(id, 0, ExitReason::kFailed, 1);
            Pass(Duration::Seconds(static_cast<int64_t>(1 + prng_.Below(20))));
          }
        }
        break;
      }
      case 1:
        Pass(Duration::Minutes(static_cast<int64_t>(1 + prng_.Below(40))));
        break;
      case 2:
        if (prng_.Below(3) == 0) {
          const Instant begins_at = now + Duration::Minutes(static_cast<int64_t>(prng_.Below(90)));
          const Instant ends_at = begins_at + Duration::Minutes(30);
          (void)Do(MaintenancePlanned{NodeId(AnyNode()), begins_at, ends_at, "op", "fans"});
          break;
        }
        prng_.Below(2) == 0 ? Drain(AnyNode()) : Undrain(AnyNode());
        break;
      case 3:
        if (const uint32_t node = AnyNode();
            prng_.Below(4) == 0 && state.uses[node].idle() && state.uses[node].claimants.empty()) {
          Resize(node, RandomCapacity());
        }
        break;
      default:
        SubmitRandom();
        break;
    }
    CheckPromises();
    if (prng_.Below(3) == 0) {
      CheckAdvice();
    }
  }

 private:
  uint32_t AnyNode() { return static_cast<uint32_t>(prng_.Below(state.nodes.size())); }

  NodeCapacity RandomCapacity() {
    constexpr uint32_t kGpus[] = {0, 4, 8, 8};
    constexpr uint32_t kCpus[] = {0, 16, 64, 96};  // 0: it does not say
    constexpr uint64_t kMemory[] = {0, 64 * kGib, 500 * kGib};
    NodeCapacity capacity;
    capacity.gpus = kGpus[prng_.Below(4)];
    capacity.cpus = kCpus[prng_.Below(4)];
    capacity.memory_bytes = kMemory[prng_.Below(3)];
    constexpr uint64_t kDisk[] = {0, 200 * kGib, 2000 * kGib};
    capacity.disk_bytes = kDisk[prng_.Below(3)];
    if (capacity.gpus > 0) {
      constexpr const char* kModels[] = {"", "A100-PCIe-40GB", "H100-SXM5-80GB"};
      capacity.gpu_model = kModels[prng_.Below(3)];
    }
    return capacity;
  }

  void LimitRandomly() {
    policy.projects = {{"llm", {"", 2}}, {"chat", {"llm", 1}}};
    const auto add = [&](QuotaRow::Subject subject, const char* name, const char* group) {
      QuotaRow row;
      row.subject = subject;
      row.name = name;
      row.group = group;
      row.nodes = static_cast<uint32_t>(prng_.Below(4));
      row.limit = row.nodes + static_cast<uint32_t>(prng_.Below(4));
      if (prng_.Below(3) == 0) {
        row.until = now + Duration::Minutes(static_cast<int64_t>(10 + prng_.Below(300)));
      }
      if (prng_.Below(2) == 0) {
        row.priority = prng_.Below(2) == 0 ? 10 : 30;
      }
      policy.quotas.push_back(row);
    };
    add(QuotaRow::Subject::kProject, "llm", "");
    add(QuotaRow::Subject::kProject, "default", prng_.Below(2) == 0 ? "" : "default");
    add(QuotaRow::Subject::kProject, "default", "elsewhere");  // counts nothing here
    if (prng_.Below(2) == 0) {
      add(QuotaRow::Subject::kUser, "ada", "");
    }
  }

  void SubmitRandom() {
    constexpr int32_t kClasses[] = {-1, 0, 10, 20, 30};
    constexpr const char* kProjects[] = {"default", "llm", "chat"};
    constexpr const char* kUsers[] = {"ada", "bob", "eve"};
    constexpr uint32_t kCpus[] = {0, 1, 20, 70, 200};
    constexpr uint64_t kMemory[] = {0, 10, 100, 600};
    AJob job;
    job.RetryFailure(static_cast<uint32_t>(prng_.Below(3)), Duration::Minutes(2));
    job.Nodes(static_cast<uint32_t>(1 + prng_.Below(4))).Priority(kClasses[prng_.Below(5)]);
    job.Project(kProjects[policy.quotas.empty() ? 0 : prng_.Below(3)]);
    constexpr const char* kZones[] = {"cross-ok", "cross-ok:2", "B", "single", "single", "single"};
    job.Zone(kZones[prng_.Below(6)]);
    if (prng_.Below(2) == 0) {
      job.Nodes(1).Gpus(static_cast<uint32_t>(prng_.Below(9)));
    }
    if (job.Spec().gpus_per_node > 0 && prng_.Below(4) == 0) {
      job.GpuModel(prng_.Below(2) == 0 ? "A100" : "h100");
    }
    if (prng_.Below(6) == 0) {
      job.DiskGib(prng_.Below(2) == 0 ? 100 : 1000);
    }
    if (prng_.Below(3) == 0) {
      job.MaxRuntime(Duration::Minutes(static_cast<int64_t>(1 + prng_.Below(120))));
    }
    job.Cpus(kCpus[prng_.Below(2) == 0 ? 0 : prng_.Below(5)]);
    job.MemoryGib(kMemory[prng_.Below(2) == 0 ? 0 : prng_.Below(4)]);
    Turn({JobSubmitted{JobId(state.next_job_id), job.Spec(), kUsers[prng_.Below(3)], ""}});
    const auto& result = last.results.front();
    if (!result && result.error().code == ErrorCode::kNeverFits) {
      ++refused;
      INFO(result.error().message);
      REQUIRE(CountEver(job.Spec()) < job.Spec().nodes);
    } else if (result) {
      REQUIRE(CountEver(job.Spec()) >= job.Spec().nodes);
    }
    Run();
  }

  // The largest gang of such nodes that could ever be, by looking at each node.
  [[nodiscard]] uint32_t CountEver(const JobSpec& spec) const {
    std::map<std::string, uint32_t> zones;
    for (const Node& node : state.nodes) {
      const NodeCapacity& has = node.identity.capacity;
      const bool is_model = spec.gpu_model.empty() ||
                            has.gpu_model.starts_with(spec.gpu_model == "A100" ? "A100" : "H100");
      const bool has_disk = has.disk_bytes == 0 || has.disk_bytes >= spec.disk_bytes_per_node;
      const bool fits = has_disk && has.gpus >= spec.gpus_per_node && is_model &&
                        (has.cpus == 0 || has.cpus >= spec.cpus_per_node) &&
                        (has.memory_bytes == 0 || has.memory_bytes >= spec.memory_bytes_per_node);
      if (node.identity.group == spec.group && fits) {
        ++zones[node.identity.zone];
      }
    }
    return IsNamedZone(spec.zone) ? zones[spec.zone] : CountInChain(zones, ZonesMax(spec.zone));
  }

  // The most nodes of so many zones, each joined with the one before.
  [[nodiscard]] uint32_t CountInChain(const std::map<std::string, uint32_t>& zones,
                                      uint32_t zones_max) const {
    std::vector<std::pair<std::string, uint32_t>> order(zones.begin(), zones.end());
    uint32_t most = 0;
    do {
      uint32_t count = 0;
      for (size_t i = 0; i < order.size() && i < zones_max; ++i) {
        if (i > 0 && !AreJoined(order[i - 1].first, order[i].first)) {
          break;
        }
        count += order[i].second;
        most = std::max(most, count);
      }
    } while (std::ranges::next_permutation(order).found);
    return most;
  }

  [[nodiscard]] bool AreJoined(const std::string& zone, const std::string& other) const {
    return policy.boundaries.empty() ||
           std::ranges::any_of(policy.boundaries, [&](const Boundary& each) {
             return std::minmax(each.first, each.second) == std::minmax(zone, other);
           });
  }

  // --- advice --------------------------------------------------------------------------------

  // Withdraws the job and submits it as advised: how it stands after one turn.
  [[nodiscard]] const Job& Follow(const Job& job, JobSpec changed) {
    if (changed.max_runtime == job.spec->max_runtime && changed.max_runtime.nanos() > 0) {
      changed.max_runtime = changed.max_runtime - job.run_time;  // what is left of it
    }
    copy_ = state;
    const JobId next(copy_.next_job_id);
    const std::vector<Event> events = {{now, CancelRequested{job.id, job.user, ""}},
                                       {now, JobSubmitted{next, changed, job.user, ""}}};
    followed_ = Step(copy_, events, policy, now);
    INFO(said_);
    REQUIRE(followed_.results[1]);
    return copy_.jobs.at(next);
  }

  void Note(const std::string& kind, bool holds) {
    ++followed[kind];
    if (!holds) {
      broken[kind].push_back(said_);
    }
  }

  // Checks that no runner of its class gives it nodes before, and that the one named may then.
  void CheckTurn(const Job& job, const Reason& reason) {
    const Shares shares(state, policy, now);
    const Quotas quotas(state, state.fabric, policy, now);
    const Runners runners(state, policy, shares, quotas, now);
    const Holding holding = HoldingOf(state, job, quotas.ClassOf(job));
    const int64_t holds = runners.HoldsOf(holding);
    bool named = false;
    bool none_before = true;
    for (const Runner& runner : runners.all()) {
      if (runner.priority == holding.priority && runner.job->group == holding.group &&
          runner.safe_until <= now && !runner.job->leaving &&
          runner.job->user != state.owners.users().At(job.user)) {
        named = named || (runner.job->id == reason.other && runner.least == reason.count);
        none_before =
            none_before && SlowdownForTurn(holds, runner.least, *runner.holds) >= reason.count;
      }
    }
    Note("no turn before", named && none_before);
  }

  void CheckAdvice() {
    for (const Explanation& explanation : last.explanations.All(state)) {
      const Job& job = At(explanation.job);
      for (const Reason& reason : explanation.reasons) {
        const ReasonText text = DescribeReason(job, reason);
        said_ = FormatJobName(job.id.value()) + ": " + text.code + ": " + text.message + " -> " +
                text.remedy;
        CheckAdvice(job, text.remedy);
        if (reason.code == ReasonCode::kSizeNever) {
          Note("could have at most", reason.count == CountEver(job.spec));
        } else if (reason.code == ReasonCode::kPreemptProtected) {
          Promise(job, reason);
        } else if (reason.code == ReasonCode::kTurn) {
          CheckTurn(job, reason);
        } else if (reason.code == ReasonCode::kMaintenance) {
          JobSpec changed = job.spec;
          changed.max_runtime = reason.until - now;
          Note("would start before a maintenance", AllocationOf(Follow(job, changed)) != nullptr);
        } else if (reason.code == ReasonCode::kBackoff) {
          Note("waits until",
               IsTold(job.id, reason.until - Duration::Seconds(1), IsBackoff) &&
                   !IsTold(job.id, reason.until, IsBackoff));
        } else if (reason.quota && reason.quota->until.is_set()) {
          CheckEndOfQuota(job.id, reason);
        }
      }
    }
  }

  static bool IsBackoff(const Reason& reason) { return reason.code == ReasonCode::kBackoff; }

  // Reports whether the job is told such a reason when time alone has passed, on a copy.
  template <typename Matches>
  [[nodiscard]] bool IsTold(JobId job, Instant at, const Matches& matches) {
    copy_ = state;
    followed_ = Step(copy_, {}, policy, std::max(at, now));
    const auto reasons = followed_.explanations.Of(copy_, job);
    return reasons && std::ranges::any_of(*reasons, matches);
  }

  // A row that ends is in nobody's way from then on.
  void CheckEndOfQuota(JobId job, const Reason& told) {
    const auto is_row = [&](const Reason& reason) {
      return reason.code == told.code && reason.quota->name == told.quota->name &&
             reason.quota->group == told.quota->group &&
             reason.quota->priority == told.quota->priority &&
             reason.quota->until == told.quota->until;
    };
    Note("quota ends at", told.quota->until > now && !IsTold(job, told.quota->until, is_row));
  }

  void CheckAdvice(const Job& job, const std::string& remedy) {
    static const std::regex kField(R"(resources: \{(\w+): ([0-9.]+)\} would start now)");
    static const std::regex kAcross("zone: cross-ok\\} would start it now");
    static const std::regex kTakes("priority: ([\\w-]+) would take its nodes from lower jobs");
    static const std::regex kWithin(R"(resources: \{nodes: (\d+)\} would be within quota)");
    static const std::regex kQuota("priority: ([\\w-]+) has quota left");
    std::smatch found;
    if (std::regex_search(remedy, found, kField)) {
      JobSpec changed = job.spec;
      const double amount = std::stod(found[2]);
      if (found[1] == "nodes") {
        changed.nodes = static_cast<uint32_t>(amount);
      } else if (found[1] == "gpus_per_node") {
        changed.gpus_per_node = static_cast<uint32_t>(amount);
      } else if (found[1] == "cpus_per_node") {
        changed.cpus_per_node = static_cast<uint32_t>(amount);
      } else {
        changed.memory_bytes_per_node = static_cast<uint64_t>(amount * static_cast<double>(kGib));
      }
      Note("would start now, " + found[1].str(), AllocationOf(Follow(job, changed)) != nullptr);
    }
    if (std::regex_search(remedy, found, kAcross)) {
      JobSpec changed = job.spec;
      changed.zone = "cross-ok";
      Note("would start across zones", AllocationOf(Follow(job, changed)) != nullptr);
    }
    if (std::regex_search(remedy, found, kTakes)) {
      JobSpec changed = job.spec;
      changed.priority = *ParsePriority(found[1].str());
      const Job& after = Follow(job, changed);
      Note("would take nodes",
           AllocationOf(after) != nullptr || (StateOf(after) == JobState::kQueued &&
                                              std::get<Queued>(after.phase).claim.has_value()));
    }
    if (CountEver(job.spec) < job.spec->nodes) {
      return;  // nodes have shrunk since: no quota helps it, as another reason says
    }
    if (std::regex_search(remedy, found, kQuota)) {
      JobSpec changed = job.spec;
      changed.priority = *ParsePriority(found[1].str());
      Note("has quota left", IsWithinQuota(Follow(job, changed)));
    }
    if (std::regex_search(remedy, found, kWithin)) {
      JobSpec changed = job.spec;
      changed.nodes = static_cast<uint32_t>(std::stoul(found[1]));
      Note("would be within quota", IsWithinQuota(Follow(job, changed)));
    }
  }

  // After an advice was followed.
  [[nodiscard]] bool IsWithinQuota(const Job& job) const {
    const auto reasons = followed_.explanations.Of(copy_, job.id);
    return !reasons || !reasons->front().quota;
  }

  // --- times ---------------------------------------------------------------------------------

  // Until then the waiting job does not have the other one leave, if it came later.
  void Promise(const Job& waiting, const Reason& reason) {
    REQUIRE(reason.until > now);
    if (waiting.state_since > At(reason.other).attempts.back().placed_at) {
      ++promises;
      auto& until = promised_[{reason.other, waiting.id}];
      until = std::max(until, reason.until);
    }
  }

  void CheckPromises() {
    for (; seen_ < log.size(); ++seen_) {
      if (const auto* placed = std::get_if<JobPlaced>(&log[seen_].body)) {
        Forget(placed->job);  // what was said was of its start before
      }
      const auto* asked = std::get_if<SuspendRequested>(&log[seen_].body);
      if (asked == nullptr || asked->cause != StopCause::kPreempted) {
        continue;
      }
      const auto found = promised_.find({asked->job, asked->beneficiary});
      if (policy.quotas.empty() && found != promised_.end()) {
        said_ = FormatJobName(asked->job.value()) + " leaves for " +
                FormatJobName(asked->beneficiary.value());
        Note("keeps its nodes until", log[seen_].at >= found->second);
      }
      Forget(asked->job);
    }
  }

  void Forget(JobId runner) {
    std::erase_if(promised_, [&](const auto& each) { return each.first.first == runner; });
  }

  Prng& prng_;
  std::string said_;
  ClusterState copy_;  // where the last advice was followed
  StepResult followed_;
  std::map<std::pair<JobId, JobId>, Instant> promised_;  // who runs, who waits
  size_t seen_ = 0;                                      // of the log
};

}  // namespace

TEST_CASE("in random worlds each advice works, each refusal is right and each time holds") {
  const char* asked = std::getenv("TIDE_SEEDS");
  const uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kSeeds;
  std::map<std::string, size_t> followed;
  std::map<std::string, size_t> broken;
  size_t refused = 0;
  size_t promises = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    Prng prng(seed);
    AdviceWorld world(prng);
    for (int act = 0; act < kActs; ++act) {
      INFO("act " << act);
      world.Act();
    }
    for (const auto& [kind, count] : world.followed) {
      followed[kind] += count;
    }
    for (const auto& [kind, examples] : world.broken) {
      broken[kind] += examples.size();
      if (broken[kind] == examples.size()) {
        WARN("seed " << seed << ": " << kind << ": " << examples.front());
      }
    }
    refused += world.refused;
    promises += world.promises;
  }
  for (const auto& [kind, count] : followed) {
    INFO(kind << ": tried " << count << " times");
    CHECK(broken[kind] == 0);
    CHECK(count > seeds / 400);
  }
  CHECK(followed.size() == 14);
  CHECK(refused > seeds);
  CHECK(promises > seeds);
}

}  // namespace tide::testing
