#include "scheduler/core/model/varied_jobs.h"

#include <algorithm>
#include <iterator>

namespace tide {
namespace {

// Bounds are worked out anew once a part of a block's jobs is gone: one in so many.
constexpr size_t kGonePart = 4;

bool IsWithin(Instant first_since, Instant last_since, const AnswerReach& reach) {
  return reach.first_since <= first_since && last_since <= reach.last_since;
}

}  // namespace

bool VariedJobs::Takes(const WaitingJob& job) {
  return job.plain && !job.after_fault && job.rank == 0 && SlowdownBound::Holds(job.slowdown);
}

WaitingJob VariedJobs::Open(const Line& line) const {
  WaitingJob job;
  job.id = line.id;
  job.since = line.since;
  job.shape = shape_;
  job.plain = true;
  job.has_run = line.has_run;
  job.slowdown = line.slowdown;
  return job;
}

WaitingJob VariedJobs::operator[](size_t place) const {
  return Open(place == 0 ? first_ : blocks_[place / kBlock].lines[place % kBlock]);
}

void VariedJobs::Prefetch() const {
  constexpr size_t kLine = 64;
  const auto* memory = static_cast<const char*>(static_cast<const void*>(blocks_.data()));
  for (size_t at = 0; at < sizeof(Block); at += kLine) {
    __builtin_prefetch(memory + at);
  }
}

size_t VariedJobs::BlockOf(JobId id) const {
  const auto after = std::ranges::upper_bound(
      blocks_, id, {}, [](const Block& block) { return block.lines.front().id; });
  return after == blocks_.begin() ? 0 : static_cast<size_t>(after - blocks_.begin()) - 1;
}

size_t VariedJobs::After(int64_t rank, JobId id) const {
  if (rank != 0) {
    return rank < 0 ? 0 : end();
  }
  if (id < first_.id) {
    return 0;
  }
  const size_t block = BlockOf(id);
  const std::vector<Line>& lines = blocks_[block].lines;
  const auto after = std::ranges::upper_bound(lines, id, {}, &Line::id);
  return At(block, static_cast<size_t>(after - lines.begin()));
}

size_t VariedJobs::Beyond(const AnswerReach& reach, size_t from) const {
  size_t slot = from % kBlock;
  for (size_t i = from / kBlock; i < blocks_.size(); ++i, slot = 0) {
    const Block& block = blocks_[i];
    if (IsWithin(block.first_since, block.last_since, reach) &&
        block.slowdown.At(reach.now, reach.minimum_run) <= reach.slowdown) {
      continue;
    }
    for (; slot < block.lines.size(); ++slot) {
      const Line& line = block.lines[slot];
      if (!IsWithin(line.since, line.since, reach) ||
          line.slowdown.At(reach.now, reach.minimum_run) > reach.slowdown) {
        return At(i, slot);
      }
    }
  }
  return end();
}

bool VariedJobs::Has(JobId id) const {
  return !blocks_.empty() &&
         std::ranges::binary_search(blocks_[BlockOf(id)].lines, id, {}, &Line::id);
}

void VariedJobs::Insert(const WaitingJob& job) {
  if (blocks_.empty()) {
    blocks_.emplace_back();
  }
  size_t block = blocks_.front().lines.empty() ? 0 : BlockOf(job.id);
  if (blocks_[block].lines.size() == kBlock) {
    Split(block);
    block = BlockOf(job.id);
  }
  Block& home = blocks_[block];
  const auto place = std::ranges::lower_bound(home.lines, job.id, {}, &Line::id);
  Bound(home, *home.lines.insert(place, {job.id, job.since, job.slowdown, job.has_run}));
  first_ = blocks_.front().lines.front();
}

Instant VariedJobs::Remove(JobId id) {
  const size_t index = BlockOf(id);
  Block& block = blocks_[index];
  const auto place = std::ranges::lower_bound(block.lines, id, {}, &Line::id);
  const Instant since = place->since;
  block.lines.erase(place);
  if (block.lines.empty()) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
  } else if (++block.gone * kGonePart > block.lines.size()) {
    BoundAll(block);
  }
  if (!blocks_.empty()) {
    first_ = blocks_.front().lines.front();
  }
  return since;
}

void VariedJobs::Split(size_t block) {
  constexpr auto kHalf = static_cast<std::ptrdiff_t>(kBlock / 2);
  Block& lower = blocks_[block];
  Block upper;
  upper.lines.assign(lower.lines.begin() + kHalf, lower.lines.end());
  lower.lines.resize(kBlock / 2);
  BoundAll(lower);
  BoundAll(upper);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(block) + 1, std::move(upper));
}

void VariedJobs::Bound(Block& block, const Line& line) {
  block.first_since = std::min(block.first_since, line.since);
  block.last_since = std::max(block.last_since, line.since);
  block.slowdown.Add(line.slowdown);
}

void VariedJobs::BoundAll(Block& block) {
  block.first_since = Instant::Never();
  block.last_since = Instant();
  block.slowdown = SlowdownBound();
  block.gone = 0;
  for (const Line& line : block.lines) {
    Bound(block, line);
  }
}

}  // namespace tide
