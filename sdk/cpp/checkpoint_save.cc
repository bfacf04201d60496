// One save of a Checkpoint: handed to the saver or written here, and what becomes of it.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/time.h"
#include "sdk/cpp/checkpoint_core.h"
#include "sdk/cpp/memory_room.h"
#include "sdk/cpp/store.h"
#include "sdk/cpp/text.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/save.h"

namespace tide::cpp {
namespace {

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using FileMemory = std::unique_ptr<char, FreeMemory>;

}  // namespace

Result<std::string> CheckpointCore::SaveNow(int64_t step, const Order& order) {
  calm_steps_ = 0;
  due_ = false;
  Result<sdk::Ticket> begun = Begin(step);
  if (!begun) {
    tide::Error error = begun.error();
    error.message = "cannot save step " + std::to_string(step) + ": " + error.message;
    return std::unexpected(std::move(error));
  }
  sdk::Ticket ticket = std::move(*begun);
  ticket.deadline_ns = order.deadline_ns;
  TIDE_TRY(CheckTexts(objects_));
  const uint32_t phase = run_.page().phase.exchange(kPhaseSaving);
  const Status written = Write(ticket, order);
  run_.RestartStepClock();  // first: the long silence is never seen beside the phase of training
  run_.page().phase = phase;
  if (!written) {
    TakeBack(ticket);
    const bool is_system = written.error().code == ErrorCode::kSystem;
    tide::Error error = written.error();
    error.message = "cannot save step " + std::to_string(step) + ": " + error.message +
                    (is_system ? "; free space or repair the file system," : ";") +
                    " earlier checkpoints are intact";
    return std::unexpected(std::move(error));
  }
  return sdk::IdOf(ticket);
}

Status CheckpointCore::Write(const sdk::Ticket& ticket, const Order& order) {
  TIDE_ASSIGN(const Handed handed,
              background_.HandOver(ticket, objects_, order.wait, order.begun_ns));
  if (handed == Handed::kNot) {
    return WriteHere(ticket, order);
  }
  if (handed == Handed::kSkipped) {
    NoteSkipped(ticket.step);
  } else {
    NoteStaged(ticket.step);
  }
  return {};
}

// In this thread, until it is committed: there is no saver.
Status CheckpointCore::WriteHere(sdk::Ticket ticket, const Order& order) {
  const Layout layout = LayOut(objects_, ticket.rank, ticket.world);
  const uint64_t bytes = PaddedBytes(layout);
  const FileMemory memory(
      HasRoom(bytes) ? static_cast<char*>(std::aligned_alloc(sdk::kBlockBytes, bytes)) : nullptr);
  if (memory == nullptr) {
    return Fail(ErrorCode::kSystem,
                "no memory for a copy of this rank's share of the state, " +
                    std::to_string(bytes >> 20U) + " MiB");
  }
  FillFile(layout, memory.get());
  ticket.file = FreeName(ticket.directory, ticket.rank);
  DescribePart(objects_, layout, ticket);
  NoteStaged(ticket.step);
  int64_t until_ns = order.deadline_ns;
  bool hurries = false;
  const sdk::SaveControl control{
      .deadline_ns =
          [&] {
            // Ranks that were below this step when a suspension came up leave this save out, and
            // their parts never come.
            if (order.in_passing && !hurries && run_.page().order == kOrderSuspend) {
              hurries = true;
              const int64_t notice_ns = NoticeNs(ReadOrders(run_.page()));
              until_ns =
                  std::min(until_ns, MonotonicNanos() + std::max(kLeastPatienceNs, notice_ns / 4));
            }
            return until_ns;
          },
      .publish = [] { return true; }};
  std::mutex writing;
  TIDE_ASSIGN(const sdk::SaveOutcome outcome,
              sdk::CarryOut(ticket, {memory.get(), layout.bytes}, writing, control));
  NoteCommitted(ticket, ticket.rank == 0 ? outcome.bytes : 0, order.begun_ns);
  if (ticket.rank == 0) {
    if (const Status collected = sdk::CollectGarbage(ticket, {}); !collected && !has_warned_) {
      has_warned_ = true;
      Warn("old checkpoints stay: " + collected.error().message +
           "; whoever they belong to has to remove them");
    }
  }
  return {};
}

void CheckpointCore::NoteStaged(int64_t step) {
  saves += 1;
  run_.page().staged_step = step;
}

void CheckpointCore::NoteCommitted(const sdk::Ticket& ticket, uint64_t bytes, int64_t begun_ns) {
  Page& page = run_.page();
  if (IsOnRecord()) {
    page.saved_step = std::max(ticket.step, page.saved_step.load());
  }
  page.failed_saves = 0;
  given_up_.reset();
  const double seconds = static_cast<double>(MonotonicNanos() - begun_ns) / 1e9;
  run_.reporter().Send("saved",
                       ",\"step\":" + std::to_string(ticket.step) + ",\"checkpoint\":\"" +
                           sdk::IdOf(ticket) + "\",\"bytes\":" + std::to_string(bytes) +
                           ",\"seconds\":" + NumberText(seconds));
}

void CheckpointCore::NoteSkipped(int64_t step) {
  skipped_saves += 1;
  if ((skipped_saves & (skipped_saves - 1)) == 0) {  // the 1st, 2nd, 4th, 8th …
    Warn("save of step " + std::to_string(step) + " skipped, " + std::to_string(skipped_saves) +
         " so far: earlier ones are still being written; save less often, or to a faster disk");
  }
}

void CheckpointCore::NoteFailed(const sdk::Ticket& ticket, const tide::Error& why) {
  CountFailed(why);
  Warn("save " + std::to_string(failed_saves) + " failed, training goes on: cannot save step " +
       std::to_string(ticket.step) + ": " + why.message + "; earlier checkpoints are intact");
}

// Counts a save that training goes on without, for people to see in `tide ps`.
void CheckpointCore::CountFailed(const tide::Error& why) {
  failed_saves += 1;
  Page& page = run_.page();
  page.save_errno = static_cast<uint32_t>(why.os_error);
  page.failed_saves += 1;
}

void CheckpointCore::TakeBack(const sdk::Ticket& ticket) {
  if (!sdk::IsCommitted(ticket.directory).value_or(false)) {
    ::unlink(sdk::PartPath(ticket.directory, ticket.rank).c_str());
    sdk::MarkFailed(ticket);
  }
}

}  // namespace tide::cpp
