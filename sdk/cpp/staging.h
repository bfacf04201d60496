#pragma once
// Staging slots: memory that this rank shares with its saver (sdk/native/slot.h).

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/base/file.h"
#include "sdk/cpp/layout.h"

namespace tide::cpp {

// One memfd, mapped. Filled by the training thread while it is not busy.
class StagingSlot {
 public:
  // Errors: kSystem where there is no memory.
  [[nodiscard]] static Result<std::shared_ptr<StagingSlot>> Make(size_t index, uint64_t bytes);
  ~StagingSlot();
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  // The slot is at least SlotBytes(layout, ticket) long.
  void Fill(const Layout& layout, const std::string& ticket);

  const size_t index;
  const uint64_t bytes;
  const Fd fd;
  char* const memory;
  bool busy = false;
  bool known = false;  // to the saver

 private:
  StagingSlot(size_t slot_index, uint64_t slot_bytes, Fd file, char* mapped);
};

[[nodiscard]] uint64_t SlotBytes(const Layout& layout, uint64_t ticket_bytes);

// The slots of one rank. They are made when first needed and kept.
class StagingSlots {
 public:
  struct Taken {
    std::shared_ptr<StagingSlot> slot;  // counts as busy until it is given back with busy = false
    bool is_free = false;               // a slot was free; if there is none: memory is missing
  };
  [[nodiscard]] Taken Take(uint64_t bytes);

  // Makes the pages of all slots ready in a thread of its own: fresh ones cost ten times what a
  // copy into used ones does.   wait: until they are.
  void Prepare(uint64_t bytes, bool wait);

 private:
  std::shared_ptr<StagingSlot> Make(size_t index, uint64_t bytes);
  void Say(const std::string& why);

  std::array<std::shared_ptr<StagingSlot>, 2> slots_;
  bool has_said_ = false;
  std::jthread preparing_;
};

}  // namespace tide::cpp
