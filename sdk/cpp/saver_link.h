#pragma once
// This rank's end of its saver, the process that writes what was staged (sdk/native/saver.h).

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file.h"
#include "sdk/cpp/layout.h"
#include "sdk/cpp/staging.h"

namespace tide::cpp {

// A save that is under way. ticket: without its data.
struct StagedSave {
  uint64_t number = 0;
  sdk::Ticket ticket;
  std::shared_ptr<StagingSlot> slot;
  int64_t begun_ns = 0;  // CLOCK_MONOTONIC
};

// How a save ended. bytes: of the whole checkpoint on rank 0, of this rank's file elsewhere.
struct SaveAnswer {
  StagedSave save;
  std::optional<tide::Error> error;  // nothing: committed
  uint64_t bytes = 0;
};

// Used by the training thread. Every Result's error means that the process has ended: what it had
// not finished is not committed, and will not be.
class SaverLink {
 public:
  // lock: a file that the saver locks while a save is under way.
  [[nodiscard]] static Result<std::unique_ptr<SaverLink>> Start(const std::string& program,
                                                                const std::string& lock);
  // Ends the connection. The process finishes what it has, and ends; an idle one at once.
  ~SaverLink();
  SaverLink(const SaverLink&) = delete;
  SaverLink& operator=(const SaverLink&) = delete;

  // True while a save is under way, or what it made superfluous is being removed.
  [[nodiscard]] bool busy() const { return !staged_.empty() || !tidying_.empty(); }
  [[nodiscard]] bool is_gone() const { return is_gone_; }
  [[nodiscard]] bool IsStaged(uint64_t number) const { return staged_.contains(number); }

  void Prepare(uint64_t bytes, bool wait) { slots_.Prepare(bytes, wait); }

  struct Staging {
    std::optional<uint64_t> number;
    bool is_free = false;  // a slot was free; without a number: memory is missing
  };
  // Copies the state and hands it over; it may change once this returns.
  //   ticket: with its part.
  [[nodiscard]] Result<Staging> Stage(const sdk::Ticket& ticket,
                                      const Layout& layout,
                                      int64_t begun_ns);
  // Has the other ranks told that this one does not save this step.
  [[nodiscard]] Status Skip(sdk::Ticket ticket);
  // Says where and as whom this rank will save: a ticket of any save.
  [[nodiscard]] Status Introduce(sdk::Ticket ticket);
  // Says that this rank begins no save any more.
  [[nodiscard]] Status Leave();
  // Saves under way wait for other ranks no longer than this, CLOCK_MONOTONIC.
  [[nodiscard]] Status Hurry(int64_t deadline_ns);
  // Saves that have ended since the last look. Waits so long for one.
  [[nodiscard]] Result<std::vector<SaveAnswer>> Poll(int64_t timeout_ns);

  // Takes a save back that waits for the disk. False: this rank's part may be in its place already.
  // Only for the end of a rank's patience: its slot stays busy until the saver has answered.
  [[nodiscard]] bool CallOff(uint64_t number);

  // Once it is gone: the saves that nobody will finish.
  [[nodiscard]] std::vector<StagedSave> Abandoned();

 private:
  SaverLink(Fd socket, pid_t process) : socket_(std::move(socket)), process_(process) {}
  Status Send(const std::string& text, int fd = -1);
  std::unexpected<tide::Error> Gone();
  std::optional<SaveAnswer> Understand(std::string_view text);

  StagingSlots slots_;
  Fd socket_;
  const pid_t process_;
  bool is_gone_ = false;
  bool is_reaped_ = false;
  std::map<uint64_t, StagedSave> staged_;  // not answered yet
  std::set<uint64_t> tidying_;             // answered; old checkpoints may still be removed
  uint64_t next_ = 1;
};

// The program tide-saver, if there is one: in the folder `native` ("0": none), or without one
// beside this program or in the folders of `path`.
[[nodiscard]] std::optional<std::string> FindSaver(const std::string& native,
                                                   const std::string& path);

}  // namespace tide::cpp
