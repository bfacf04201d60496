#include "sdk/native/save.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"
#include "sdk/native/manifest.h"
#include "sdk/native/nap.h"
#include "sdk/native/part.h"

namespace tide::sdk {
namespace {

// Rank 0 has one small file left to write once it has taken the parts.
constexpr int64_t kDecidedGraceNs = 30'000'000'000;

// Marks stay: a save that failed is not tried again in the same folder.
bool HasFailed(const Ticket& ticket, int64_t rank) {
  return ::access(FailedPath(ticket.directory, rank).c_str(), F_OK) == 0;
}

// True: the checkpoint cannot be committed now. False: rank 0 was first, or the file system
// refused.
bool Withdraw(const Ticket& ticket) {
  return ::unlink(PartPath(ticket.directory, ticket.rank).c_str()) == 0;
}

// Leaves a folder that was removed as it is: other ranks take that for the end of the save.
void PutFailedMark(const Ticket& ticket) {
  static_cast<void>(ReplaceFile(FailedPath(ticket.directory, ticket.rank), "", 0644));
}

// Tells whether `rank` has ended without having begun this save.
bool IsGone(const Ticket& ticket, int64_t rank) {
  const Result<std::string> saving = ReadFile(GonePath(ticket.folder, ticket.start, rank));
  return saving && ("\n" + *saving).find("\n" + IdOf(ticket) + "\n") == std::string::npos;
}

Status RemoveStale(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return FailErrno("cannot remove " + path, errno);
  }
  return {};
}

Status WriteData(const Ticket& ticket, std::span<const char> data, std::vector<uint32_t>& crcs) {
  const std::string temporary =
      ticket.directory + "/" + ticket.file + ".tmp-" + std::to_string(::getpid());
  TIDE_TRY(RemoveStale(temporary));
  TIDE_ASSIGN(WrittenFile written, WriteDataFile(temporary, data));
  const std::string path = ticket.directory + "/" + ticket.file;
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return FailErrno("cannot rename " + temporary, error);
  }
  crcs = std::move(written.crc32);
  return {};
}

Status WritePart(const Ticket& ticket,
                 std::span<const char> data,
                 std::mutex& writing,
                 const SaveControl& control) {
  TIDE_TRY(MakeDirs(ticket.directory, 0777));
  TIDE_TRY(OfferShared(ticket));
  std::vector<uint32_t> crcs;
  {
    const std::lock_guard lock(writing);
    TIDE_TRY(WriteData(ticket, data, crcs));
  }
  if (!control.publish()) {
    ::unlink((ticket.directory + "/" + ticket.file).c_str());
    return Fail(ErrorCode::kDeadlineExceeded,
                ticket.directory + ": not written in time; the file system is slow or hangs");
  }
  // The data file's name has to be durable before rank 0 may commit. The part need not: it ends
  // with the commit, and without one it counts for nothing.
  TIDE_TRY(SyncDirectory(ticket.directory));
  return ReplaceFile(PartPath(ticket.directory, ticket.rank),
                     FormatPart(ticket, crcs, !IsOffered(ticket)),
                     FileRights());
}

// The part of `rank` in this save, nullopt while there is none.
std::optional<Part> PartOf(const Ticket& ticket, int64_t rank) {
  Result<Part> part = ReadPart(ticket.directory, rank);
  if (!part) {
    return std::nullopt;
  }
  // A part of another start, or of another size of this one, is not what is waited for; its rank
  // will replace it.
  const Result<std::string_view> format = JsonMemberOf(part->head, "format");
  const Result<std::string_view> world = JsonMemberOf(part->head, "world");
  const Result<std::string_view> start = JsonMemberOf(part->head, "start");
  const bool ours = format && *format == "\"" + std::string(kFormat) + "\"" && world &&
                    *world == std::to_string(ticket.world) && start &&
                    *start == "\"" + ticket.start + "\"";
  return ours ? std::optional(std::move(*part)) : std::nullopt;
}

// Nobody but this rank takes its part away while it collects.
std::unexpected<Error> PartGone(const Ticket& ticket) {
  return Fail(ErrorCode::kConflict,
              PartPath(ticket.directory, ticket.rank) +
                  " is gone; see what else removes files in this folder");
}

Result<std::vector<Part>> CollectParts(const Ticket& ticket, const SaveControl& control) {
  std::vector<Part> parts(static_cast<size_t>(ticket.world));
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < ticket.world; ++rank) {
    missing.push_back(rank);
  }
  for (Nap nap(ticket.world);; nap.Take()) {
    std::erase_if(missing, [&](int64_t rank) {
      std::optional<Part> part = PartOf(ticket, rank);
      if (part) {
        parts[static_cast<size_t>(rank)] = std::move(*part);
      }
      return part.has_value();
    });
    if (missing.empty()) {
      return parts;
    }
    if (::access(PartPath(ticket.directory, ticket.rank).c_str(), F_OK) != 0 && errno == ENOENT) {
      return PartGone(ticket);
    }
    std::vector<int64_t> failed;
    const bool orphaned = control.orphaned();
    std::copy_if(missing.begin(), missing.end(), std::back_inserter(failed), [&](int64_t rank) {
      return HasFailed(ticket, rank) || (orphaned && IsGone(ticket, rank));
    });
    if (!failed.empty()) {
      return Fail(
          ErrorCode::kConflict,
          ticket.directory + ": " + RanksText(failed) + " could not write; their logs say why");
    }
    if (MonotonicNanos() >= control.deadline_ns()) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  ticket.directory + ": " + RanksText(missing) + " of " +
                      std::to_string(ticket.world) + " did not write in time");
    }
  }
}

// Errors: kConflict if a rank gave up meanwhile. Those whose parts are taken then wait for the
// mark.
Status TakeParts(const Ticket& ticket) {
  for (int64_t rank = 0; rank < ticket.world; ++rank) {
    if (::unlink(PartPath(ticket.directory, rank).c_str()) != 0) {
      if (errno != ENOENT) {
        return FailErrno("cannot take " + PartPath(ticket.directory, rank), errno);
      }
      if (rank == ticket.rank) {
        return PartGone(ticket);
      }
      return Fail(ErrorCode::kConflict,
                  ticket.directory + ": rank " + std::to_string(rank) +
                      " gave up waiting; its log says why");
    }
  }
  return {};
}

Result<uint64_t> BytesOfManifest(const std::string& manifest) {
  TIDE_ASSIGN(const std::string_view text, JsonMemberOf(manifest, "bytes"));
  TIDE_ASSIGN(const int64_t bytes, JsonInteger(text));
  return static_cast<uint64_t>(bytes);
}

// Rank 0: waits for all parts, writes the manifest.
Result<uint64_t> Commit(const Ticket& ticket, const SaveControl& control) {
  TIDE_ASSIGN(const std::vector<Part> parts, CollectParts(ticket, control));
  TIDE_ASSIGN(const std::string manifest, MergeParts(ticket, parts));
  TIDE_TRY(WriteRanksFile(ticket.directory, parts));
  WithdrawOffer(ticket);
  TIDE_TRY(TakeParts(ticket));
  const std::string path = ticket.directory + "/" + std::string(kManifest);
  Status written = PutFile(path, manifest);
  if (written) {
    written = SyncDirectory(ticket.folder);
  }
  // A manifest in its place counts: other ranks may have seen it, and left.
  if (!written && !IsCommitted(ticket.directory).value_or(false)) {
    return std::unexpected(written.error());
  }
  return BytesOfManifest(manifest);
}

bool IsRemoved(const Ticket& ticket) {
  return ::access(ticket.directory.c_str(), F_OK) != 0 && errno == ENOENT;
}

// Tells whether its start has committed a later one. With that rank 0 removes what it replaces,
// which other ranks may not have seen yet, and what it gave up, of which it reports itself.
bool IsReplaced(const Ticket& ticket) {
  const std::optional<CheckpointId> id = ParseCheckpointId(IdOf(ticket));
  const Result<std::vector<CheckpointFolder>> found = ScanFolder(ticket.folder);
  return id && found &&
         std::any_of(found->begin(), found->end(), [&](const CheckpointFolder& other) {
           return other.has_manifest && other.id.start == id->start && id->IsOlderThan(other.id);
         });
}

// Other ranks: waits until rank 0 has committed. What rank 0 has taken by the deadline is waited
// for kDecidedGraceNs longer; a commit can follow only where that ran out or this rank's part could
// not be removed.
Status AwaitCommit(const Ticket& ticket, const SaveControl& control) {
  bool mine = true;
  int64_t grace_ends = 0;
  for (Nap nap(ticket.world);; nap.Take()) {
    TIDE_ASSIGN(const bool committed, IsCommitted(ticket.directory));
    if (committed) {
      return {};
    }
    if (HasFailed(ticket, 0) || (control.orphaned() && IsGone(ticket, 0))) {
      if (IsCommitted(ticket.directory).value_or(false)) {
        return {};  // its last act
      }
      return Fail(ErrorCode::kConflict,
                  ticket.directory + ": rank 0 could not commit; its log says why");
    }
    if (IsRemoved(ticket)) {
      if (IsReplaced(ticket)) {
        return {};
      }
      return Fail(ErrorCode::kConflict, ticket.directory + " was removed while it was written");
    }
    if (MonotonicNanos() < (mine ? control.deadline_ns() : grace_ends)) {
      continue;
    }
    if (!mine || Withdraw(ticket)) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  ticket.directory + ": not committed in time; waited for rank 0 to write " +
                      std::string(kManifest) + "; its log says why");
    }
    mine = false;
    grace_ends = MonotonicNanos() + kDecidedGraceNs;
  }
}

double SecondsSince(int64_t begin_ns) {
  return static_cast<double>(MonotonicNanos() - begin_ns) / 1e9;
}

Result<SaveOutcome> Try(const Ticket& ticket,
                        std::span<const char> data,
                        std::mutex& writing,
                        const SaveControl& control) {
  const int64_t begin = MonotonicNanos();
  SaveOutcome outcome{.bytes = data.size(), .written_s = 0, .total_s = 0};
  TIDE_ASSIGN(const bool is_committed, IsCommitted(ticket.directory));
  if (is_committed) {
    // By a saver that has ended since. Its files must stay as they are.
    if (ticket.rank == 0) {
      TIDE_ASSIGN(const std::string manifest,
                  ReadSealed(ticket.directory + "/" + std::string(kManifest)));
      TIDE_ASSIGN(outcome.bytes, BytesOfManifest(manifest));
    }
    return outcome;
  }
  TIDE_TRY(WritePart(ticket, data, writing, control));
  outcome.written_s = SecondsSince(begin);
  if (ticket.rank == 0) {
    TIDE_ASSIGN(outcome.bytes, Commit(ticket, control));
  } else {
    TIDE_TRY(AwaitCommit(ticket, control));
  }
  outcome.total_s = SecondsSince(begin);
  return outcome;
}

}  // namespace

std::string RanksText(const std::vector<int64_t>& ranks) {
  constexpr size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) {
    text += " and " + std::to_string(ranks.size() - kShown) + " more";
  }
  return text;
}

Result<SaveOutcome> CarryOut(const Ticket& ticket,
                             std::span<const char> data,
                             std::mutex& writing,
                             const SaveControl& control) {
  bool published = false;
  bool called_off = false;
  SaveControl noted = control;
  noted.publish = [&] {
    published = control.publish();
    called_off = !published;
    return published;
  };
  Result<SaveOutcome> outcome = Try(ticket, data, writing, noted);
  if (outcome || IsCommitted(ticket.directory).value_or(false)) {
    return outcome;
  }
  // What was called off is the rank's affair, which may be trying again by now: nothing is touched.
  if (published) {
    Withdraw(ticket);
  }
  if (!called_off) {
    PutFailedMark(ticket);
  }
  return outcome;
}

Status CollectGarbage(const Ticket& ticket, std::span<const int64_t> saving) {
  TIDE_ASSIGN(const std::vector<CheckpointFolder> found, ScanFolder(ticket.folder));
  const std::optional<CheckpointId> id = ParseCheckpointId(IdOf(ticket));
  if (!id) {
    return {};
  }
  const CheckpointFolder newest{.id = *id, .path = ticket.directory, .has_manifest = true};
  Status removed;
  for (const CheckpointFolder& old :
       PickGarbage(found, newest, ticket.keep, ticket.damaged, saving)) {
    Status now = RemoveCheckpoint(old);
    // Where two clean up at once, one finds the other's work done, or half done.
    if (!now && now.error().os_error != ENOENT && now.error().os_error != ENOTEMPTY && removed) {
      removed = std::move(now);
    }
  }
  return removed;
}

void NoteGone(const Ticket& like, std::span<const std::string> saving) {
  std::string text;
  for (const std::string& name : saving) {
    text += name + "\n";
  }
  static_cast<void>(ReplaceFile(GonePath(like.folder, like.start, like.rank), text, 0644));
}

void MarkFailed(const Ticket& ticket) {
  if (MakeDirs(ticket.directory, 0777)) {
    PutFailedMark(ticket);
  }
}

}  // namespace tide::sdk
