#include "scheduler/server/people/open_jobs.h"

namespace tide {
namespace {

uint64_t CountOf(const std::map<std::string, uint64_t>& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

void TakeOne(std::map<std::string, uint64_t>& counts, const std::string& name) {
  const auto found = counts.find(name);
  if (--found->second == 0) {
    counts.erase(found);
  }
}

Status CheckRoom(
    const std::string& who, uint64_t there, uint64_t more, uint64_t most, const std::string& flag) {
  if (there + more <= most) {
    return {};
  }
  return Fail(ErrorCode::kLimitReached,
              who + " has " + std::to_string(there) +
                  " jobs that have not finished, and may have " + std::to_string(most) +
                  ": wait until some have, or cancel some; who runs the "
                  "scheduler can raise the limit with " +
                  flag);
}

}  // namespace

void OpenJobs::Note(const Job& job) {
  if (StateOf(job) != JobState::kFinished) {
    if (open_.insert(job.id).second) {
      ++there_.of_user[job.user];
      ++there_.of_project[job.spec->project];
    }
  } else if (open_.erase(job.id) > 0) {
    TakeOne(there_.of_user, job.user);
    TakeOne(there_.of_project, job.spec->project);
  }
}

void OpenJobs::EndTurn() {
  promised_ = {};
}

Status OpenJobs::Promise(const std::string& user, const JobSpec& spec) {
  TIDE_TRY(CheckRoom(user,
                     CountOf(there_.of_user, user) + CountOf(promised_.of_user, user),
                     spec.count,
                     limits_.of_user,
                     "--user-jobs"));
  TIDE_TRY(CheckRoom(
      "project " + spec.project,
      CountOf(there_.of_project, spec.project) + CountOf(promised_.of_project, spec.project),
      spec.count,
      limits_.of_project,
      "--project-jobs"));
  promised_.of_user[user] += spec.count;
  promised_.of_project[spec.project] += spec.count;
  return {};
}

}  // namespace tide
