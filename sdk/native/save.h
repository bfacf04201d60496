#pragma once
// Carries one ticket out: data file, part, and the commit.
//
// Whoever removes a rank's part decides about it, for a name can be removed only once: rank 0,
// which then writes the manifest, or the rank itself, which gives up. So no manifest appears after
// a rank has given up, and no rank gives up what is about to be committed.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sdk/native/ticket.h"

namespace tide::sdk {

struct SaveOutcome {
  uint64_t bytes = 0;    // of the whole checkpoint on rank 0, of this rank's file elsewhere
  double written_s = 0;  // this rank's data and part
  double total_s = 0;    // until the commit was seen
};

struct SaveControl {
  // Called with no more than seconds in between while other ranks are waited for. The moment,
  // CLOCK_MONOTONIC, at which to give up: the ticket's, or an earlier one.
  std::function<int64_t()> deadline_ns;
  // Called before this rank's part is put in its place. False: the rank has called the save off,
  // and nothing is left of it. Once it was true, only removing the part takes it back.
  std::function<bool()> publish;
  // True once this rank has ended. Others may have ended before they began this save: then their
  // savers have left a note (NoteGone), and are not waited for.
  std::function<bool()> orphaned = [] { return false; };
};

// Returns when the checkpoint is committed, or can no more be by this rank.
//   data: the data file's content, on a page; readable up to the next multiple of kBlockBytes.
//   writing: held while the data file is written, so that saves of one rank do not share the disk.
//   Errors: kConflict naming the ranks that failed or disagree; kDeadlineExceeded naming those that
//     did not come; kSystem. Earlier checkpoints are as they were.
[[nodiscard]] Result<SaveOutcome> CarryOut(const Ticket& ticket,
                                           std::span<const char> data,
                                           std::mutex& writing,
                                           const SaveControl& control);

// Rank 0, once `ticket` is committed: removes what no start can need any more.
//   saving: steps of this rank that are being saved now.
//   Errors: kSystem naming the first that could not be removed; it is tried again at the next
//   commit.
[[nodiscard]] Status CollectGarbage(const Ticket& ticket, std::span<const int64_t> saving);

// "rank 3", "ranks 1, 2", with no more than the first eight.
[[nodiscard]] std::string RanksText(const std::vector<int64_t>& ranks);

// Tells the savers of the other ranks that this one ended, and is still at these saves alone.
//   like: any ticket of it.   saving: names of checkpoints.   Best effort.
void NoteGone(const Ticket& like, std::span<const std::string> saving);

// Tells the ranks that wait for this one that it does not save this step. Best effort.
void MarkFailed(const Ticket& ticket);

}  // namespace tide::sdk
