#include "cli/dev/demo.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/dev/story.h"
#include "common/base/time.h"

namespace tide::cli {
namespace {

using nlohmann::json;

constexpr int kSteps = 200;
constexpr int kInterruptAtStep = 40;
constexpr int kBreakAtStep = 110;
constexpr int64_t kPatienceNs = 180'000'000'000;

int64_t StepOf(const json& job) {
  return job.value("step", json()).is_null() ? -1 : job["step"].get<int64_t>();
}

bool IsOver(const json& job) {
  return job["state"] == "finished";
}

// Of a job that names none: j-12-…, after its time of submission.
std::string CheckpointFolder(const std::string& root, const std::string& job) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root, none)) {
    if (entry.path().filename().string().starts_with(job + "-")) {
      return entry.path().string();
    }
  }
  return root + "/" + job;
}

}  // namespace

Demo::Demo(const Workspace& workspace, Say say, const std::atomic<bool>& stop)
    : workspace_(workspace),
      client_(Server{workspace.server(), workspace.token(), "tide dev"},
              {.timeout = Duration::Seconds(30), .first_contact = Duration::Seconds(30)}),
      say_(std::move(say)),
      stop_(stop) {}

Demo::~Demo() = default;

void Demo::Check(const std::string& text, bool held, const std::string& evidence) {
  claims_.push_back({text, held, evidence});
}

Result<json> Demo::Get(const std::string& path) {
  auto answer = client_.Get(path);
  if (!answer) {
    return Fail(ErrorCode::kUnavailable, answer.error().message);
  }
  json parsed = json::parse(*answer, nullptr, false);
  if (parsed.is_discarded()) {
    return Fail(ErrorCode::kInternal, path + " is not JSON");
  }
  return parsed;
}

Result<std::string> Demo::Submit(const std::string& spec) {
  auto answer = client_.Post("/v1/jobs", {spec, "application/yaml", NewIdempotencyKey()});
  if (!answer) {
    const Failure& failure = answer.error();
    return Fail(ErrorCode::kInvalidArgument,
                failure.findings.empty() ? failure.message : failure.findings.front().message);
  }
  return json::parse(*answer).at("id").get<std::string>();
}

// Looks until `done`, the job is over, or patience ends.
Result<json> Demo::WaitForJob(const std::string& job,
                              const std::string& what,
                              const std::function<bool(const json&)>& done) {
  const int64_t deadline = MonotonicNanos() + kPatienceNs;
  while (!stop_) {
    TIDE_ASSIGN(json now, Get("/v1/jobs/" + job));
    if (done(now)) {
      return now;
    }
    if (IsOver(now)) {
      return Fail(ErrorCode::kInternal,
                  job + " ended (" + now["outcome"].get<std::string>() + ") while waiting for it " +
                      "to " + what +
                      (now["detail"].is_null() ? "" : ": " + now["detail"].get<std::string>()));
    }
    if (MonotonicNanos() > deadline) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  job + " did not " + what + " in time; it is " + now["state"].get<std::string>());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Fail(ErrorCode::kUnavailable, "interrupted");
}

Result<std::string> Demo::FirstLogLine(const std::string& job, uint64_t attempt) {
  auto text = client_.Get("/v1/jobs/" + job + "/logs?rank=0&attempt=" + std::to_string(attempt));
  if (!text) {
    return Fail(ErrorCode::kUnavailable, text.error().message);
  }
  return text->substr(0, text->find('\n'));
}

std::string Demo::TrainingSpec(const std::string& name, const std::string& priority) {
  return "version: 1\nname: " + name +
         "\ncommand: [/usr/bin/python3, train_charlm.py, --steps, \"" + std::to_string(kSteps) +
         "\", --save-every, \"25\", --log-every, \"10\", --step-ms, \"25\"]\nworkdir: " +
         workspace_.root() +
         "/work\nresources: {nodes: 2, ranks_per_node: 2}\npriority: " + priority + "\n";
}

Status Demo::Play() {
  TIDE_TRY(WaitForNodes());
  TIDE_TRY(TrainReference());
  TIDE_TRY(TrainUntilInterrupted());
  TIDE_TRY(InterruptForUrgentJob());
  TIDE_TRY(BreakANode());
  return FinishAndCompare();
}

Status Demo::WaitForNodes() {
  const int64_t deadline = MonotonicNanos() + kPatienceNs;
  while (!stop_ && MonotonicNanos() < deadline) {
    // The API comes up last; until then there is nobody to ask.
    if (const auto list = Get("/v1/nodes"); list && list->contains("items")) {
      const json& nodes = (*list)["items"];
      TIDE_TRY(Repair(nodes));
      const auto ready = std::count_if(nodes.begin(), nodes.end(), [](const json& node) {
        return (node["state"] == "ready" || node["state"] == "probation") &&
               node["connected"] == true;
      });
      if (static_cast<size_t>(ready) == workspace_.nodes().size()) {
        const std::string runtime = nodes[0]["runtime"];
        say_(std::to_string(ready) + " nodes ready; jobs run " +
             (runtime == "oci" ? std::string("in containers, not as root")
                               : "as plain processes: nothing isolates them (" +
                                     std::string(::geteuid() == 0 ? "the agents' logs say why"
                                                                  : "this is not root") +
                                     ")"));
        return {};
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Fail(ErrorCode::kDeadlineExceeded, "the nodes did not come up");
}

// The fault was played, and no validator could prove a GPU well that is not there.
Status Demo::Vouch(const std::string& node) {
  TIDE_ASSIGN(const json faults, Get("/v1/faults"));
  for (const json& fault : faults["items"]) {
    if (fault["node"] != node || !fault["cleared_at"].is_null()) {
      continue;
    }
    const auto answer =
        client_.Post("/v1/faults/" + std::to_string(fault["id"].get<uint64_t>()) + "/ack",
                     {R"({"reason": "it was only played"})", "application/json", ""});
    if (!answer) {
      return Fail(ErrorCode::kUnavailable, answer.error().message);
    }
  }
  return {};
}

// On a folder that was kept, an earlier story has left a node out of service.
Status Demo::Repair(const json& nodes) {
  for (const json& node : nodes) {
    const std::string name = node["name"];
    if (node["state"] == "drained" || node["state"] == "draining") {
      return Fail(ErrorCode::kConflict,
                  name + " is drained and the story needs all nodes: run `tide undrain " + name +
                      "`, or take another --state");
    }
    if (node["state"] != "quarantined" || node["connected"] != true ||
        !repaired_.insert(name).second) {
      continue;
    }
    say_(name + " is quarantined by an earlier story: validating it");
    TIDE_TRY(Vouch(name));
    const auto answer =
        client_.Post("/v1/nodes/" + name + "/validate", {"{}", "application/json", ""});
    if (!answer) {
      return Fail(ErrorCode::kUnavailable, answer.error().message);
    }
  }
  return {};
}

Status Demo::TrainReference() {
  TIDE_ASSIGN(reference_, Submit(TrainingSpec("charlm-undisturbed", "normal")));
  say_(reference_ +
       " trains a character model undisturbed, for comparison: PyTorch DDP, 2 nodes × "
       "2 ranks, " +
       std::to_string(kSteps) + " steps");
  TIDE_ASSIGN(const json job, WaitForJob(reference_, "finish", IsOver));
  Check(reference_ + " finished", job["outcome"] == "succeeded", DescribeOutcome(job));
  if (job["outcome"] != "succeeded") {
    return Fail(ErrorCode::kInternal, reference_ + " ended: " + DescribeOutcome(job));
  }
  return {};
}

Status Demo::TrainUntilInterrupted() {
  TIDE_ASSIGN(training_, Submit(TrainingSpec("charlm", "low")));
  say_(training_ + " trains the same at priority low");
  TIDE_ASSIGN(const json job, WaitForJob(training_, "train", [](const json& now) {
                return StepOf(now) >= kInterruptAtStep;
              }));
  return {};
}

Status Demo::InterruptForUrgentJob() {
  TIDE_ASSIGN(const std::string urgent,
              Submit("version: 1\nname: urgent\ncommand: [/usr/bin/python3, count.py, --steps, "
                     "\"60\", --step-ms, \"20\"]\nworkdir: " +
                     workspace_.root() +
                     "/work\nresources: {nodes: " + std::to_string(workspace_.nodes().size()) +
                     "}\nplacement: {zone: cross-ok}\npriority: high\n"));
  say_(urgent + " (high) needs all nodes: " + training_ + " is asked to save and leave");
  TIDE_ASSIGN(const json rushed, WaitForJob(urgent, "finish", IsOver));
  Check(urgent + " (high) ran", rushed["outcome"] == "succeeded", DescribeOutcome(rushed));
  TIDE_ASSIGN(const json job, WaitForJob(training_, "resume", [](const json& now) {
                const json* left = AttemptEndedBy(now, "preempted");
                return left != nullptr && now["attempts"].back()["epoch"] > (*left)["epoch"] &&
                       now["state"] == "running" && StepOf(now) > (*left)["stop_step"];
              }));
  const json& left = *AttemptEndedBy(job, "preempted");
  stop_step_ = left["stop_step"].is_null() ? -1 : left["stop_step"].get<int64_t>();
  for (const std::string& line : TellSuspension(left, rushed)) {
    say_(line);
  }
  const uint64_t next = left["epoch"].get<uint64_t>() + 1;
  TIDE_ASSIGN(const std::string words, FirstLogLine(training_, next));
  Check(training_ + " saved at one agreed step on all ranks",
        stop_step_ >= 0 && !left["saved_at"].is_null(),
        "step " + std::to_string(stop_step_));
  Check(urgent + " started after the last rank had left",
        SecondsBetween(left["released_at"], FirstAttempt(rushed)["placed_at"]) >= 0,
        Milliseconds(left["released_at"], FirstAttempt(rushed)["running_at"]) +
            " from released to running");
  Check(training_ + " resumed with 0 steps lost",
        words.ends_with("from step " + std::to_string(stop_step_)),
        "rank 0 said: " + words);
  say_(training_ + " is back: " + words);
  return {};
}

Status Demo::BreakANode() {
  TIDE_ASSIGN(const json before, WaitForJob(training_, "train on", [](const json& now) {
                return now["state"] == "running" && StepOf(now) >= kBreakAtStep;
              }));
  broken_node_ = before["attempts"].back()["tasks"].back()["node"];
  const auto node = std::find_if(workspace_.nodes().begin(),
                                 workspace_.nodes().end(),
                                 [&](const DevNode& each) { return each.name == broken_node_; });
  const Fd kmsg(::open(node->kmsg.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  TIDE_TRY(WriteAll(kmsg.get(),
                    "NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has "
                    "fallen off the bus.\n"));
  say_("Xid 79 written into the kernel log of " + broken_node_ + " at step " +
       std::to_string(StepOf(before)));
  const uint64_t epoch = before["attempts"].back()["epoch"];
  TIDE_ASSIGN(const json job, WaitForJob(training_, "run elsewhere", [&](const json& now) {
                return now["attempts"].back()["epoch"] > epoch && now["state"] == "running" &&
                       AttemptEndedBy(now, "fault") != nullptr;
              }));
  const json& failed = *AttemptEndedBy(job, "fault");
  TIDE_ASSIGN(const json faults, Get("/v1/faults"));
  const json* incident = IncidentOn(faults, broken_node_);
  if (incident == nullptr) {
    return Fail(ErrorCode::kInternal, "no incident was recorded for " + broken_node_);
  }
  const json& next = *AttemptOf(job, failed["epoch"].get<uint64_t>() + 1);
  for (const std::string& line : TellFault(*incident, failed, next)) {
    say_(line);
  }
  TIDE_ASSIGN(const json broken, Get("/v1/nodes/" + broken_node_));
  Check(broken_node_ + " is out of service",
        broken["state"] == "quarantined",
        broken["reason"].is_null() ? "" : broken["reason"].get<std::string>());
  const std::string elsewhere = NodesOf(job["attempts"].back());
  Check(training_ + " runs elsewhere",
        elsewhere.find(broken_node_) == std::string::npos,
        "on " + elsewhere);
  return {};
}

Status Demo::FinishAndCompare() {
  TIDE_ASSIGN(const json job, WaitForJob(training_, "finish", IsOver));
  Check(training_ + " finished", job["outcome"] == "succeeded", DescribeOutcome(job));
  for (const json& attempt : job["attempts"]) {
    const auto words = FirstLogLine(training_, attempt["epoch"].get<uint64_t>());
    say_("  attempt " + std::to_string(attempt["epoch"].get<uint64_t>()) + " on " +
         NodesOf(attempt) + ": " + words.value_or("(no log)"));
  }
  const std::string root = workspace_.root() + "/checkpoints";
  const Comparison comparison = CompareCheckpoints(
      workspace_, CheckpointFolder(root, reference_), CheckpointFolder(root, training_));
  Check("final weights equal those of the undisturbed run, bit for bit",
        comparison.equal,
        comparison.words);
  return {};
}

}  // namespace tide::cli
