#pragma once
// Saves that go on while training does: staged here, written by the saver.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sdk/cpp/objects.h"
#include "sdk/cpp/saver_link.h"
#include "sdk/native/ticket.h"

namespace tide::cpp {

// What rank 0 has left to do once it has taken the parts.
inline constexpr int64_t kDecidedGraceNs = 30'000'000'000;

enum class Handed {
  kOver,     // to the saver; committed, if that was waited for
  kSkipped,  // all slots are still being written
  kNot,      // no saver, or no memory: the caller writes
};

// Used by the training thread.
class Background {
 public:
  // Who is told how saves end that nobody waits for, during any call.
  struct Sink {
    std::function<void(const SaveAnswer&)> committed;
    std::function<void(const sdk::Ticket&, const tide::Error& why)> failed;
    // The saver ended: what lies there is the rank's to take back.
    std::function<void(const sdk::Ticket&, const tide::Error& why)> lost;
  };
  // program: of the saver, if there is one.   lock: what it locks while a save is under way.
  Background(std::optional<std::string> program, std::string lock, Sink sink);

  [[nodiscard]] bool busy() const { return link_ != nullptr && link_->busy(); }

  // Makes memory ready for saves of this size.   wait: until it is, else while training goes on.
  void Prepare(int64_t rank, int64_t world, const Objects& objects, bool wait);

  // Says where and as whom this rank will save: a ticket of any save.
  void Introduce(const sdk::Ticket& ticket);
  // Says that this rank saves no more.
  void Leave();

  // Stages the state, which may change once this returns.
  //   ticket: without its data.   wait: for a free slot, and then until the save is over.
  //   Errors: where it is waited for and fails, or is not over in time.
  [[nodiscard]] Result<Handed> HandOver(const sdk::Ticket& ticket,
                                        const Objects& objects,
                                        bool wait,
                                        int64_t begun_ns);

  // Tells the sink what has ended. Waits so long for something.
  void Look(int64_t timeout_ns);

  // Waits until no save is under way. False: one is, at this time, CLOCK_MONOTONIC.
  bool Flush(int64_t deadline_ns);

 private:
  bool Start();
  Result<Handed> TryHandOver(const sdk::Ticket& ticket,
                             const Objects& objects,
                             bool wait,
                             int64_t begun_ns);
  Result<SaverLink::Staging> Stage(sdk::Ticket ticket,
                                   const Objects& objects,
                                   bool wait,
                                   int64_t begun_ns);
  Status Await(uint64_t number, const sdk::Ticket& ticket);
  Result<std::optional<SaveAnswer>> AnswerFor(uint64_t number, int64_t deadline_ns);
  void Tell(const std::vector<SaveAnswer>& answers);
  void Lose(const std::string& why, const sdk::Ticket* again);

  const std::optional<std::string> program_;
  const std::string lock_;
  const Sink sink_;
  std::unique_ptr<SaverLink> link_;
  bool has_tried_ = false;
};

}  // namespace tide::cpp
