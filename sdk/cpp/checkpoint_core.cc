#include "sdk/cpp/checkpoint_core.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/cpp/lease.h"
#include "sdk/cpp/restore.h"
#include "sdk/cpp/store.h"
#include "sdk/cpp/text.h"
#include "sdk/native/crc32.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

namespace tide::cpp {
namespace {

// By then a program has what it trains with.
constexpr int kPrepareAtTick = 2;
// A saver whose rank has gone ends within 30 s.
constexpr int64_t kOrphansEndNs = 35'000'000'000;

std::string AbsoluteFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(folder, error);
  return (error ? std::filesystem::path(folder) : path).lexically_normal().string();
}

// What a person can do about a file system that fails.
template <typename T>
Result<T> WithAdvice(Result<T> result) {
  if (!result && result.error().code == ErrorCode::kSystem) {
    return Fail(ErrorCode::kSystem,
                result.error().message + "; repair the file system or give another dir");
  }
  return result;
}

// Outside the platform no agent fences one start from the next, so the lock lies where all see it.
std::string SaverLock(const RunCore& run, const std::string& folder) {
  const std::string name = "saver-" + std::to_string(run.local_rank) + ".lock";
  return run.in_platform() ? (std::filesystem::path(run.page_path).parent_path() / name).string()
                           : LockPath(folder, run.rank);
}

}  // namespace

CheckpointCore::CheckpointCore(RunCore& run, const CheckpointOptions& options)
    : run_(run),
      folder_(AbsoluteFolder(options.dir.empty() ? run.checkpoint_dir : options.dir)),
      is_main_(folder_ == AbsoluteFolder(run.checkpoint_dir)),
      every_(options.every),
      keep_(std::max<int64_t>(1, options.keep)),
      timeout_ns_(NanosOf(options.timeout)),
      background_(
          FindSaver(run.native_folder, run.program_path),
          SaverLock(run, folder_),
          {.committed =
               [this](const SaveAnswer& answer) {
                 const uint64_t bytes = run_.rank == 0 ? answer.bytes : 0;
                 NoteCommitted(answer.save.ticket, bytes, answer.save.begun_ns);
               },
           .failed = [this](const auto& ticket, const auto& why) { NoteFailed(ticket, why); },
           .lost =
               [this](const auto& ticket, const auto& why) {
                 TakeBack(ticket);
                 NoteFailed(ticket, why);
               }}) {
  run_.has_main = run_.has_main || is_main_;
}

int64_t CheckpointCore::Resume(bool allow_restart, std::optional<int64_t> step) {
  OrThrow(WithAdvice(MakeDirs(folder_, 0777)));
  if (!run_.in_platform()) {
    AwaitOrphans(folder_, MonotonicNanos() + kOrphansEndNs);
  }
  // Where nothing can be written, no start saves: the ranks only look.
  const bool is_writable = IsWritable();
  if (is_writable) {
    OrThrow(WithAdvice(TakeLease()));
  }
  const std::optional<int64_t> wanted = !step && is_main_ ? run_.resume_step : step;
  const int64_t below = !wanted && is_main_ ? run_.resume_before : 0;
  Resumed resumed = OrThrow(WithAdvice(RestoreNewest(wanted, below)));
  if (!wanted && below == 0 && !allow_restart) {
    OrThrow(RequireRecorded(resumed.step));
  }
  if (is_writable) {
    start_ = OrThrow(WithAdvice(Agree(resumed.id)));
    if (start_->checkpoint != resumed.id) {
      resumed = OrThrow(WithAdvice(RestoreTold(start_->checkpoint, resumed.id)));
    }
  }
  const int64_t begin = resumed.step;
  resumed_ = resumed.id.empty() ? std::nullopt : std::optional(std::move(resumed));
  if (begin > 0 && IsOnRecord()) {
    run_.Resumed(begin);
  }
  run_.RestartStepClock();
  return begin;
}

Result<CheckpointCore::Resumed> CheckpointCore::RestoreNewest(std::optional<int64_t> wanted,
                                                              int64_t below) {
  if (wanted == 0) {
    return Resumed{};
  }
  std::set<int64_t> steps;
  TIDE_ASSIGN(const std::vector<sdk::CheckpointFolder> found, sdk::ScanFolder(folder_));
  for (auto item = found.rbegin(); item != found.rend(); ++item) {
    if (!item->has_manifest) {
      continue;
    }
    steps.insert(item->id.step);
    if ((wanted && *wanted != item->id.step) || (below > 0 && item->id.step >= below)) {
      continue;
    }
    const Status restored = RestoreFrom(item->path, true);
    if (!restored && restored.error().code == ErrorCode::kCorrupt) {
      damaged_.push_back(item->path);
      damaged_step_ = std::max(damaged_step_, item->id.step);
      Warn("checkpoint " + item->path + " is damaged (" + restored.error().message +
           "); using the one before it");
      continue;
    }
    TIDE_TRY(restored);
    return Resumed{.step = item->id.step, .id = FormatCheckpointId(item->id)};
  }
  if (wanted || below > 0) {
    std::string text;
    for (const int64_t step : steps) {
      text += (text.empty() ? "" : ", ") + std::to_string(step);
    }
    return Fail(ErrorCode::kNotFound,
                "no whole checkpoint " +
                    (wanted ? "of step " + std::to_string(*wanted)
                            : "below step " + std::to_string(below)) +
                    " in " + folder_ + "; there are steps " + (text.empty() ? "(none)" : text));
  }
  return Resumed{};
}

std::optional<sdk::RingPlace> CheckpointCore::Ring(const std::string& directory) const {
  const std::string shared_memory = "/dev/shm";
  const bool is_one_of_many = run_.local_rank >= 0 && run_.local_rank < run_.local_world &&
                              run_.local_world > 1 && run_.local_world <= run_.world;
  if (!is_one_of_many || run_.start.empty() || ::access(shared_memory.c_str(), W_OK) != 0) {
    return std::nullopt;
  }
  // Nodes may share a machine; of one start only ranks of one node have the same first rank.
  const std::string name =
      run_.start + " " + std::to_string(run_.rank - run_.local_rank) + " " + directory;
  return sdk::RingPlace{.path = shared_memory + "/tide-load-cpp-" +
                                std::to_string(sdk::Crc32(0, name.data(), name.size())),
                        .ranks = static_cast<uint32_t>(run_.local_world),
                        .rank = static_cast<uint32_t>(run_.local_rank)};
}

Status CheckpointCore::RestoreFrom(const std::string& directory, bool together) {
  TIDE_ASSIGN(const StoredCheckpoint stored, ReadStored(directory, run_.rank));
  TIDE_TRY(Restore(stored, objects_, together ? Ring(directory) : std::nullopt));
  if (!stored.local && !objects_.local.empty()) {
    Warn(directory + " was saved by " + std::to_string(stored.world) +
         " ranks and has no local state for rank " + std::to_string(run_.rank) +
         ", which starts anew");
  }
  return {};
}

Result<CheckpointCore::Resumed> CheckpointCore::RestoreTold(const std::string& told,
                                                            const std::string& own) {
  const auto text = [](const std::string& id) { return id.empty() ? "nothing" : id; };
  const std::string problem = folder_ + ": rank 0 resumes from " + text(told) + ", rank " +
                              std::to_string(run_.rank) + " from " + text(own);
  const std::string advice = "; do all nodes see the same folder?";
  const std::optional<CheckpointId> name = ParseCheckpointId(told);
  if (!name) {
    return Fail(ErrorCode::kConflict, problem + advice);
  }
  const Status restored = RestoreFrom(folder_ + "/" + told, false);
  if (!restored) {
    return Fail(restored.error().code,
                problem + ", and cannot read that: " + restored.error().message + advice);
  }
  return Resumed{.step = name->step, .id = told};
}

bool CheckpointCore::IsWritable() const {
  return ::access(folder_.c_str(), W_OK) == 0;
}

Status CheckpointCore::TakeLease() {
  return run_.rank == 0 ? HoldLease(folder_, run_.job, run_.attempt.value_or(0)) : Status();
}

Result<Start> CheckpointCore::Agree(const std::string& id) {
  const auto decide = [&](std::string nonce) -> Result<Start> {
    TIDE_ASSIGN(StartPlace place, PlaceOf(folder_, nonce));
    return Start{.number = std::max(place.number, run_.attempt.value_or(0)),
                 .nonce = std::move(nonce),
                 .checkpoint = id,
                 .generations = std::move(place.generations)};
  };
  return AgreeOnStart({.folder = folder_,
                       .start = run_.start,
                       .scratch = run_.scratch,
                       .rank = run_.rank,
                       .world = run_.world},
                      decide,
                      MonotonicNanos() + timeout_ns_ * kPatienceInPassing);
}

Result<Start> CheckpointCore::AgreedStart() {
  if (start_) {
    return *start_;
  }
  TIDE_TRY(WithAdvice(MakeDirs(folder_, 0777)));
  TIDE_TRY(WithAdvice(TakeLease()));
  TIDE_ASSIGN(Start start, WithAdvice(Agree("")));
  start_ = start;
  return start;
}

// Falling back from a damaged checkpoint to a whole one has been told and is what checkpoints are
// kept for.
Status CheckpointCore::RequireRecorded(int64_t step) const {
  if (step == 0 && !damaged_.empty()) {
    return Fail(ErrorCode::kNotFound,
                "no checkpoint in " + folder_ + " is whole, " + std::to_string(damaged_.size()) +
                    " damaged; repair the file system, or start anew with resume(true)");
  }
  const int64_t recorded = is_main_ ? run_.recorded_step : 0;
  if (step < recorded && damaged_step_ < recorded) {
    const std::string held =
        step > 0 ? "step " + std::to_string(step) + " is the newest in " : "there is none in ";
    return Fail(ErrorCode::kNotFound,
                "this job has saved step " + std::to_string(recorded) + ", but " + held + folder_ +
                    "; is the file system mounted, is dir the one it saved in? To lose what is "
                    "gone use resume(true), or submit the job anew with another checkpoint.dir");
  }
  return {};
}

CheckpointCore::~CheckpointCore() {
  if (run_.page().phase == kPhaseDone) {
    background_.Leave();
  }
}

// A tick at which there is something to do.
bool CheckpointCore::Act(int64_t step, bool safe, bool is_ordered) {
  if (background_.busy()) {
    background_.Look(0);
  }
  const Settled settled = is_ordered && safe ? run_.Decide(step) : Settled{};
  if (settled.verdict == Verdict::kStop || (given_up_ && OthersLeft(*given_up_))) {
    return true;
  }
  // Once for a step: its ticks that are not safe do not order again what is saved.
  if (IsPeriodic(step) && step != due_for_) {
    due_ = true;
    due_for_ = step;
  }
  if (settled.verdict == Verdict::kFire && settled.orders.seq != given_up_seq_) {
    if (settled.orders.order == kOrderSuspend) {
      return Suspend(step, settled.orders);
    }
    SaveInPassing(step);
    run_.page().ack_seq = settled.orders.seq;
  } else if (safe && due_) {
    SaveInPassing(step);
  }
  ticks_ += 1;
  if (ticks_ == kPrepareAtTick && (every_ > 0 || run_.in_platform())) {
    MakeReady(false);
  }
  return false;
}

void CheckpointCore::Prepare() {
  OrThrow(CheckTexts(objects_));
  MakeReady(true);
}

void CheckpointCore::MakeReady(bool wait) {
  background_.Prepare(run_.rank, run_.world, objects_, wait);
  if (start_) {
    background_.Introduce(TicketFor(*start_, 0));
  }
}

void CheckpointCore::FindCalm(int64_t step) {
  const bool is_busy = background_.busy() || due_ || given_up_ || ticks_ < kPrepareAtTick;
  calm_from_ = step;
  if (is_busy) {
    calm_steps_ = 0;
  } else if (every_ > 0) {
    calm_steps_ = static_cast<uint64_t>(every_ - std::max<int64_t>(step, 0) % every_);
  } else {
    calm_steps_ = std::numeric_limits<uint64_t>::max() / 2;
  }
}

std::string CheckpointCore::Save(int64_t step, bool wait) {
  const int64_t now = MonotonicNanos();
  const int64_t patience_ns = timeout_ns_ * (wait ? 1 : kPatienceInPassing);
  return OrThrow(SaveNow(
      step,
      {.wait = wait, .in_passing = false, .begun_ns = now, .deadline_ns = now + patience_ns}));
}

void CheckpointCore::SaveInPassing(int64_t step) {
  const int64_t now = MonotonicNanos();
  const Result<std::string> saved =
      SaveNow(step,
              {.wait = false,
               .in_passing = true,
               .begun_ns = now,
               .deadline_ns = now + timeout_ns_ * kPatienceInPassing});
  if (!saved) {
    CountFailed(saved.error());
    Warn("save " + std::to_string(failed_saves) +
         " failed, training goes on: " + saved.error().message);
  }
}

bool CheckpointCore::Suspend(int64_t step, const PageOrders& orders) {
  if (resumed_ && resumed_->step == step) {  // no step was taken since
    run_.Acknowledge(resumed_->id, step);
    return true;
  }
  const int64_t now = MonotonicNanos();
  const Result<std::string> saved =
      SaveNow(step,
              {.wait = true,
               .in_passing = false,
               .begun_ns = now,
               .deadline_ns = now + std::max(kLeastPatienceNs, NoticeNs(orders))});
  if (saved) {
    run_.Acknowledge(*saved, step);
    return true;
  }
  // Every rank reaches this verdict: a part that is gone lets no manifest appear. Trying again at a
  // later step could let one rank leave while another trains, so the order is left to its deadline.
  CountFailed(saved.error());
  given_up_seq_ = orders.seq;
  given_up_ = begun_ && begun_->step == step ? begun_ : std::nullopt;
  Warn("not suspended at step " + std::to_string(step) + ": " + saved.error().message +
       "; training goes on until the deadline, then the run returns to its last committed "
       "checkpoint");
  return false;
}

// True where a suspension that this rank gave up has been committed after all: the other ranks are
// gone. It takes a rank 0 that took this rank's part and then stood still for longer than the
// grace.
bool CheckpointCore::OthersLeft(const sdk::Ticket& given_up) {
  if (!sdk::IsCommitted(given_up.directory).value_or(false)) {
    return false;
  }
  run_.Acknowledge(sdk::IdOf(given_up), given_up.step);
  return true;
}

int64_t CheckpointCore::NoticeNs(const PageOrders& orders) const {
  const int64_t left_ns =
      orders.deadline != 0 ? orders.deadline - SystemNow().unix_nanos() : timeout_ns_;
  return std::min(left_ns, timeout_ns_);
}

Result<sdk::Ticket> CheckpointCore::Begin(int64_t step) {
  TIDE_ASSIGN(const Start start, AgreedStart());
  resumed_.reset();
  generation_ = begun_ && begun_->step == step ? generation_ + 1 : 1;
  sdk::Ticket ticket = TicketFor(start, step);
  begun_ = ticket;
  return ticket;
}

sdk::Ticket CheckpointCore::TicketFor(const Start& start, int64_t step) const {
  const auto saved = start.generations.find(step);
  const int64_t earlier = saved == start.generations.end() ? 0 : saved->second;
  sdk::Ticket ticket;
  ticket.folder = folder_;
  ticket.directory = folder_ + "/" +
                     FormatCheckpointId({.step = step,
                                         .attempt = start.number,
                                         .start = start.nonce,
                                         .generation = earlier + generation_});
  ticket.step = step;
  ticket.attempt = start.number;
  ticket.start = start.nonce;
  ticket.rank = run_.rank;
  ticket.world = run_.world;
  ticket.keep = keep_;
  ticket.job = sdk::JsonQuote(run_.job);
  ticket.damaged = damaged_;
  return ticket;
}

bool CheckpointCore::Flush(std::optional<int64_t> timeout_ns) {
  const int64_t longest_ns = timeout_ns_ * kPatienceInPassing + 2 * kDecidedGraceNs;
  return background_.Flush(MonotonicNanos() + timeout_ns.value_or(longest_ns));
}

}  // namespace tide::cpp
