#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "common/base/time.h"
#include "sdk/cpp/run_core.h"
#include "sdk/cpp/text.h"
#include "sdk/native/json_text.h"

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX names it

namespace tide::cpp {
namespace {

std::string TextOf(const Run::Variables& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

int64_t NumberOf(const Run::Variables& environment, const std::string& name, int64_t otherwise) {
  const std::string text = TextOf(environment, name);
  int64_t number = otherwise;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (!text.empty() && (error != std::errc() || end != last)) {
    throw Error(name + "='" + text + "' is not a whole number; correct or unset it");
  }
  return number;
}

std::optional<int64_t> MaybeNumberOf(const Run::Variables& environment, const std::string& name) {
  return TextOf(environment, name).empty() ? std::nullopt
                                           : std::optional(NumberOf(environment, name, 0));
}

std::string FolderOf(const Run::Variables& environment) {
  std::string folder = TextOf(environment, "TIDE_CHECKPOINT_DIR");
  return folder.empty() ? "checkpoints" : folder;
}

// Launchers restart ranks within one start of the platform's.
std::string StartNameOf(const Run::Variables& environment) {
  const std::string start = TextOf(environment, "TIDE_START");
  const int64_t restarts = NumberOf(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  return start.empty() ? "" : start + ":" + std::to_string(restarts);
}

std::string StepField(int64_t step) {
  return ",\"step\":" + std::to_string(step);
}

void FlushStreams() {
  std::cout.flush();
  std::fflush(nullptr);
}

Run::Variables ProcessEnvironment() {
  Run::Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace

RunCore::RunCore(const Run::Variables& environment)
    : rank(NumberOf(environment, "RANK", 0)),
      world(NumberOf(environment, "WORLD_SIZE", 1)),
      local_rank(NumberOf(environment, "LOCAL_RANK", 0)),
      local_world(NumberOf(environment, "LOCAL_WORLD_SIZE", 1)),
      job(TextOf(environment, "TIDE_JOB_ID")),
      attempt(MaybeNumberOf(environment, "TIDE_ATTEMPT")),
      start(StartNameOf(environment)),
      checkpoint_dir(FolderOf(environment)),
      recorded_step(NumberOf(environment, "TIDE_CHECKPOINT_STEP", 0)),
      resume_step(MaybeNumberOf(environment, "TIDE_RESUME_STEP")),
      resume_before(NumberOf(environment, "TIDE_RESUME_BEFORE", 0)),
      page_path(TextOf(environment, "TIDE_PAGE")),
      scratch(page_path.empty() ? "" : TextOf(environment, "TMPDIR")),
      native_folder(TextOf(environment, "TIDE_NATIVE")),
      program_path(TextOf(environment, "PATH")),
      mapped_(OrThrow(page_path.empty() ? MappedPage::Local() : MappedPage::Map(page_path))),
      page_(mapped_.page()),
      reporter_(TextOf(environment, "TIDE_SOCKET"), rank),
      rehearse_at_(page_path.empty() ? MaybeNumberOf(environment, "TIDE_REHEARSE_SUSPEND")
                                     : std::nullopt) {
  if (rank < 0 || rank >= world) {
    throw Error("RANK=" + std::to_string(rank) +
                " does not fit WORLD_SIZE=" + std::to_string(world) + "; ranks are counted from 0");
  }
  page_.pid = static_cast<uint32_t>(::getpid());
  page_.step = page_.staged_step = page_.saved_step = page_.total_steps = -1;
  page_.loss = std::nan("");
  page_.loss_step = page_.bad_step = page_.good_step = page_.compute_ns = 0;
  page_.heartbeat = MonotonicNanos();
  page_.phase = kPhaseTraining;
  RestartStepClock();
  Rehearse();
  reporter_.Hello();
}

void RunCore::NoteBadLoss(int64_t step, double loss) {
  if (page_.bad_step > 0) {
    return;
  }
  page_.good_step = page_.loss_step.load();
  page_.bad_kind = std::isnan(loss) ? kBadNan : kBadInfinite;
  page_.bad_step = step;  // last: it says that the others are there
}

Settled RunCore::Decide(int64_t step) {
  const Settled settled = Settle(page_, step);
  if (settled.waited) {
    RestartStepClock();
  }
  return settled;
}

void RunCore::RestartStepClock() {
  grain_ns_ = CoarseNanos();
  steps_in_grain_ = 0;
  page_.heartbeat = grain_ns_;
}

void RunCore::Resumed(int64_t step) {
  page_.saved_step = step;
  if (rehearse_at_ && step >= *rehearse_at_) {
    page_.order = kOrderNone;
  }
}

void RunCore::Acknowledge(const std::string& checkpoint_id, int64_t step) {
  page_.saved_step = step;
  page_.ack_seq = page_.seq.load();
  page_.phase = kPhaseSaved;
  reporter_.Send(
      "suspended", StepField(step) + ",\"checkpoint\":" + sdk::JsonQuote(checkpoint_id), true);
}

// Plays the agent on the private page: one suspension, already agreed on.
void RunCore::Rehearse() {
  if (rehearse_at_) {
    page_.at_step = *rehearse_at_;
    page_.state = kStateCommitted;
    page_.order = kOrderSuspend;
    page_.seq = 1;
  }
}

Evaluating::Evaluating(RunCore& run) : run_(run) {
  run_.page().phase = kPhaseEvaluating;
}

Evaluating::~Evaluating() {
  run_.RestartStepClock();  // first: the long silence is never seen beside the phase of training
  run_.page().phase = kPhaseTraining;
}

Run::Run(const Variables& environment) : core_(std::make_unique<RunCore>(environment)) {}

Run::~Run() = default;

int64_t Run::rank() const {
  return core_->rank;
}

int64_t Run::world_size() const {
  return core_->world;
}

int64_t Run::local_rank() const {
  return core_->local_rank;
}

const std::string& Run::job() const {
  return core_->job;
}

std::optional<int64_t> Run::attempt() const {
  return core_->attempt;
}

const std::string& Run::checkpoint_dir() const {
  return core_->checkpoint_dir;
}

bool Run::in_platform() const {
  return core_->in_platform();
}

std::optional<Notice> Run::notice() const {
  const Page& page = core_->page();
  const PageOrders orders = ReadOrders(page);
  if (orders.order == kOrderNone || orders.order > kOrderStop || orders.seq == page.ack_seq) {
    return std::nullopt;
  }
  constexpr std::array<Order, 3> kKinds = {Order::kSave, Order::kSuspend, Order::kStop};
  Notice notice{.order = kKinds.at(orders.order - kOrderSave),
                .at_step = orders.at_step,
                .deadline = {},
                .committed = orders.state == kStateCommitted};
  if (orders.deadline != 0) {
    notice.deadline = std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::nanoseconds(orders.deadline)));
  }
  return notice;
}

void Run::progress(int64_t step,
                   std::optional<int64_t> total,
                   const std::map<std::string, double>& metrics) {
  if (total) {
    core_->page().total_steps = *total;
  }
  std::string numbers;
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) {  // JSON has no other numbers
      numbers += (numbers.empty() ? "" : ",") + sdk::JsonQuote(name) + ":" + NumberText(value);
    }
  }
  core_->reporter().Send("progress",
                         StepField(step) + ",\"total\":" + std::to_string(total.value_or(-1)) +
                             ",\"metrics\":{" + numbers + "}");
}

void Run::compute_time(std::chrono::duration<double> span) {
  core_->page().compute_ns = static_cast<int64_t>(span.count() * 1e9);
}

void Run::suspended(const std::string& checkpoint_id, int64_t step) {
  core_->Acknowledge(checkpoint_id, step);
}

Evaluating Run::evaluating() {
  return Evaluating(*core_);
}

void Run::exit(int code) {
  FlushStreams();
  ::_exit(code);
}

void Run::done() {
  core_->page().phase = kPhaseDone;
  core_->reporter().Send("done", StepField(core_->page().step), true);
  core_->reporter().Close();
  FlushStreams();
}

Run& attach() {
  static Run run(ProcessEnvironment());
  return run;
}

}  // namespace tide::cpp
