#pragma once
// What tide.h offers. C++20, standard library only. One thread of a program uses a Run and its
// Checkpoints: the one that trains.

#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tide::cpp {

class CheckpointCore;
class RunCore;

// The loss of a step whose loss is not known: a NaN that no calculation makes.
inline constexpr uint64_t kNoLossBits = 0x7FF8'0054'4944'4501;
inline constexpr double kNoLoss = std::bit_cast<double>(kNoLossBits);

// Something a person must act on. The message says what, where, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Order {
  kSave,
  kSuspend,
  kStop
};

// What the agent asks for.
struct Notice {
  Order order = Order::kSave;
  int64_t at_step = 0;  // the first step it applies to
  std::optional<std::chrono::system_clock::time_point> deadline;
  bool committed = false;  // all ranks agreed on at_step
};

// The exit code of a rank that has saved and acknowledged a suspension.
inline constexpr int kExitSuspended = 85;

// Marks a stretch without ticks as evaluation while it lives, so that it is not taken for a hang.
class Evaluating {
 public:
  explicit Evaluating(RunCore& run);
  ~Evaluating();
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  RunCore& run_;
};

// One rank of one start of a job.
class Run {
 public:
  using Variables = std::map<std::string, std::string>;

  // For tests; programs call attach(). environment: RANK, WORLD_SIZE, LOCAL_RANK, TIDE_*.
  //   Errors: a page that cannot be mapped, a malformed variable.
  explicit Run(const Variables& environment);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  [[nodiscard]] int64_t rank() const;
  [[nodiscard]] int64_t world_size() const;
  [[nodiscard]] int64_t local_rank() const;
  [[nodiscard]] const std::string& job() const;             // "" outside the platform
  [[nodiscard]] std::optional<int64_t> attempt() const;     // of the job; TIDE_ATTEMPT
  [[nodiscard]] const std::string& checkpoint_dir() const;  // TIDE_CHECKPOINT_DIR
  [[nodiscard]] bool in_platform() const;                   // an agent is behind this run

  // What the agent asks for now, if anything. Looks only: Checkpoint::tick agrees and acts.
  [[nodiscard]] std::optional<Notice> notice() const;

  // Reports finished steps of `total`, and numbers to show beside them. At most 50 ms.
  void progress(int64_t step,
                std::optional<int64_t> total = std::nullopt,
                const std::map<std::string, double>& metrics = {});

  // Says how long this rank computed in the step until it had to wait for others: before its first
  // collective. To be called before the tick of that step, by all ranks or none. Who is slow is
  // found by it: the steps of all ranks take equally long.
  void compute_time(std::chrono::duration<double> span);

  // Acknowledges a suspension that the program has saved by itself. Checkpoint::tick does it, too.
  void suspended(const std::string& checkpoint_id, int64_t step);

  [[nodiscard]] Evaluating evaluating();

  // Leaves at once, after flushing, without destructors: communication libraries would wait there
  // for peers that leave, too.
  [[noreturn]] void exit(int code = kExitSuspended);

  // Says that training is complete. The process then ends normally, with exit code 0.
  void done();

 private:
  friend class Checkpoint;
  std::unique_ptr<RunCore> core_;
};

// The run of this process, from its environment; a local stand-in outside the platform, where
// TIDE_REHEARSE_SUSPEND=N rehearses a suspension at step N. Every call gives the same object.
//   Errors: as of Run's constructor.
Run& attach();

// Types of elements, as safetensors names them.
enum class Dtype {
  kF64,
  kF32,
  kF16,
  kBf16,
  kC64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4m3,
  kF8E5m2,
};

namespace internal {
template <typename T>
constexpr Dtype DtypeOf() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                "name the Dtype of other element types: tide::Tensor{data, dtype, shape}");
  if constexpr (std::is_same_v<T, bool>) {
    return Dtype::kBool;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 8 ? Dtype::kF64 : Dtype::kF32;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 8   ? Dtype::kI64
           : sizeof(T) == 4 ? Dtype::kI32
           : sizeof(T) == 2 ? Dtype::kI16
                            : Dtype::kI8;
  } else {
    return sizeof(T) == 8   ? Dtype::kU64
           : sizeof(T) == 4 ? Dtype::kU32
           : sizeof(T) == 2 ? Dtype::kU16
                            : Dtype::kU8;
  }
}
}  // namespace internal

// Memory of the program: row-major, without gaps, little endian. It stays where it is as long as
// the Checkpoint that knows it.
struct Tensor {
  void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;  // empty: one element

  template <typename T>
  static Tensor Of(T* data, std::vector<int64_t> shape) {
    return {data, internal::DtypeOf<T>(), std::move(shape)};
  }
};

// A plain value's variable: ck.global("epoch", &epoch).
using Value = std::variant<int64_t*, double*, std::string*, bool*>;

struct CheckpointOptions {
  std::string dir = {};  // shared by all ranks; "": run.checkpoint_dir()
  int64_t every = 0;     // steps between periodic saves, 0 = none
  int64_t keep = 3;      // committed checkpoints that stay
  std::chrono::duration<double> timeout = std::chrono::seconds(120);  // for other ranks in one save
};

// Saves and restores a program's state in one folder; the format is tide-checkpoint/2, as that of
// the Python SDK. A save stops training while this rank's share is copied: a process beside this
// rank, tide-saver, writes it, also when the rank is killed meanwhile. Where that cannot be
// started, training waits until the checkpoint is committed.
//
// Names are OBJECT or OBJECT.KEY; Python sees {"OBJECT": {"KEY": ...}}. Give all of them before the
// first call of anything else.
// Invariants: a committed checkpoint is never written to again; nothing is removed before a newer
// commit.
class Checkpoint {
 public:
  explicit Checkpoint(Run& run, CheckpointOptions options = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Equal on all ranks: stored once, each rank writes its share.
  void replicated(const std::string& name, Tensor tensor);
  // Of this rank alone.
  void local(const std::string& name, Tensor tensor);
  // Plain values, equal on all ranks; rank 0 stores them. They stay where they are, as tensors do.
  void global(const std::string& name, Value value);

  // Restores the newest whole checkpoint. Returns its step, 0 if there is none. To be called by all
  // ranks. Every rank checks every byte; a damaged one is named on stderr and the one before it
  // used. What rank 0 has restored counts.
  //   allow_restart: start at 0, or below the step that the platform has on record, where no
  //   checkpoint is left. Else that is an error: a folder that is not mounted looks like a job that
  //   never saved.
  //   step: the newest whole checkpoint of this step; 0 restores nothing. Default: what `tide
  //   resume
  //   --step` asked for. What is saved from there on is newer than all that lies ahead.
  //   Errors: that; no whole checkpoint of `step`; ranks that do not come; state that does not fit,
  //   then nothing has changed; a newer format; an unreadable disk.
  [[nodiscard]] int64_t resume(bool allow_restart = false,
                               std::optional<int64_t> step = std::nullopt);

  // To be called by all ranks after each step. True: leave now, with run.exit().
  //   step: finished steps.   loss: shown to people, who are told of NaN, too.   safe: false where
  //   state cannot be saved.
  // Saves where it is time; a failed save is named on stderr, counted, and training goes on.
  //   Cost: 10 ns where there is nothing to do.
  [[nodiscard]] bool tick(int64_t step, double loss = kNoLoss, bool safe = true);

  // Makes memory ready for the saves to come, so that the first one stops training as briefly as
  // the others. Returns when it is there. tick() does it in the background after the second step.
  //   Errors: state that no save could store.
  void prepare();

  // Saves at `step` on all ranks. Returns the checkpoint's id, s<step>-<attempt>.
  //   wait: return when it is committed. False: as soon as the state may change.
  //   Errors: it could not be saved; earlier checkpoints are as they were.
  std::string save(int64_t step, bool wait = true);

  // Waits until no save of this rank is under way. False: one still is, `timeout` later.
  //   timeout: nothing: as long as any save may take.
  bool flush(std::optional<std::chrono::duration<double>> timeout = std::nullopt);

  [[nodiscard]] int64_t saves() const;          // checkpoints that this rank staged or wrote
  [[nodiscard]] int64_t failed_saves() const;   // of tick(); training went on
  [[nodiscard]] int64_t skipped_saves() const;  // of tick(): earlier ones were being written

 private:
  std::unique_ptr<CheckpointCore> core_;
};

}  // namespace tide::cpp
