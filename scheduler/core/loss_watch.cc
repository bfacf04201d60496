#include "scheduler/core/loss_watch.h"

#include <array>
#include <cstdio>
#include <string>

namespace tide {
namespace {

std::string LossText(double loss) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.4g", loss);
  return text.data();
}

}  // namespace

std::vector<EventBody> NoteLosses(const ClusterState& state, const std::vector<SeenLoss>& seen) {
  std::vector<EventBody> events;
  for (const SeenLoss& each : seen) {
    const Job* job = state.FindJob(each.job);
    const bool runs = job != nullptr &&
                      (StateOf(*job) == JobState::kRunning || StateOf(*job) == JobState::kSaving);
    if (!runs || job->attempts.back().epoch != each.epoch) {
      continue;
    }
    const Attempt& attempt = job->attempts.back();
    const health::LossNews& news = each.news;
    const JobNote* spike = FindNote(attempt, NoteKind::kLossSpike);
    if (news.spike_step > 0 && (spike == nullptr || spike->step < news.spike_step)) {
      events.emplace_back(JobNoted{.job = each.job,
                                   .epoch = each.epoch,
                                   .kind = NoteKind::kLossSpike,
                                   .step = news.spike_step,
                                   .text = "loss spiked at step " +
                                           std::to_string(news.spike_step) + ": " +
                                           LossText(news.spike_loss) + " against a median of " +
                                           LossText(news.spike_median)});
    }
    if (news.bad_step > 0 && FindNote(attempt, NoteKind::kLossNotFinite) == nullptr) {
      events.emplace_back(JobNoted{.job = each.job,
                                   .epoch = each.epoch,
                                   .kind = NoteKind::kLossNotFinite,
                                   .step = news.bad_step,
                                   .good_step = news.good_step,
                                   .text = std::string("loss is ") +
                                           (news.infinite ? "infinite" : "NaN") + " since step " +
                                           std::to_string(news.bad_step)});
    }
  }
  return events;
}

}  // namespace tide
