#include "scheduler/core/model/checkpoint_folders.h"

#include <algorithm>
#include <vector>

#include "scheduler/core/model/state.h"

namespace tide {
namespace {

// One text for one folder: "/a//b/./c/" is "/a/b/c". Links are not looked at: the scheduler sees no
// file system of the nodes.
std::string KeyOf(const std::string& folder) {
  std::string key;
  size_t at = 0;
  while (at < folder.size()) {
    const size_t end = std::min(folder.find('/', at), folder.size());
    const std::string step = folder.substr(at, end - at);
    if (!step.empty() && step != ".") {
      key += "/" + step;
    }
    at = end + 1;
  }
  return key;
}

// All jobs that are over before a job with this spec starts, as far as they are known.
std::set<JobId> Before(const ClusterState& state, const JobSpec& spec) {
  std::set<JobId> before;
  std::vector<const JobSpec*> specs = {&spec};
  while (!specs.empty()) {
    const JobSpec& next = *specs.back();
    specs.pop_back();
    for (const Dependency& dependency : next.after) {
      const Job* awaited = state.FindJob(dependency.job);
      if (awaited == nullptr) {
        continue;
      }
      for (uint64_t i = 1; dependency.array && i < awaited->spec->count; ++i) {
        before.insert(JobId(dependency.job.value() + i));
      }
      if (before.insert(dependency.job).second) {
        specs.push_back(&*awaited->spec);
      }
    }
  }
  return before;
}

bool HasRun(const Job& job) {
  return job.run_time.nanos() > 0 || std::ranges::any_of(job.attempts, [](const Attempt& attempt) {
           return attempt.running_at.is_set();
         });
}

}  // namespace

void IndexCheckpointFolder(CheckpointFolders& folders, const Job& job) {
  if (job.spec->checkpoint_dir.empty()) {
    return;
  }
  const std::string key = KeyOf(job.spec->checkpoint_dir);
  if (StateOf(job) != JobState::kFinished) {
    folders[key].insert(job.id);
    return;
  }
  const auto found = folders.find(key);
  if (found != folders.end() && found->second.erase(job.id) == 1 && found->second.empty()) {
    folders.erase(found);
  }
}

Status CheckCheckpointFolder(const ClusterState& state,
                             const JobSpec& spec,
                             const std::string& user) {
  const auto found = state.checkpoint_folders.find(KeyOf(spec.checkpoint_dir));
  if (spec.checkpoint_dir.empty() || found == state.checkpoint_folders.end()) {
    return {};
  }
  const std::set<JobId> before = Before(state, spec);
  for (const JobId id : found->second) {
    const Job& other = state.jobs.at(id);
    const bool counts = other.user == user ? other.spec->name != spec.name : HasRun(other);
    if (!counts || before.contains(id)) {
      continue;
    }
    if (other.user != user) {  // where others save is theirs to know
      return Fail(ErrorCode::kConflict,
                  "checkpoint.dir: another user's job saves in " + spec.checkpoint_dir +
                      "; give another folder");
    }
    const std::string name = FormatJobName(id.value());
    return Fail(ErrorCode::kConflict,
                "checkpoint.dir: " + name + " (" + other.spec->name + " of " + other.user +
                    ") saves in " + spec.checkpoint_dir +
                    "; give another folder, or run after it: `after: " + name + "`");
  }
  return {};
}

}  // namespace tide
