#pragma once
// A staging slot: memory that a rank and its saver share, a memfd.
//
//   0     control page
//   4096  the data file's content, then zeros up to the next page, then the ticket

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/result.h"

namespace tide::sdk {

inline constexpr size_t kSlotDataAt = 4096;

// The one word of the control page. It settles which of the two was first, when the rank's patience
// ends while its saver is about to publish what it has written.
enum class SlotVerdict : uint32_t {
  kOpen = 0,
  kPublished = 1,  // by the saver
  kCalledOff = 2,  // by the rank
};

// Moves the verdict at the start of a mapped slot away from kOpen. False: it was settled before.
[[nodiscard]] bool SettleSlot(void* slot, SlotVerdict verdict);

class Slot {
 public:
  // Maps `bytes` of a memfd, shared and writable. Errors: kSystem, kInvalidArgument if it is
  // shorter.
  [[nodiscard]] static Result<Slot> Map(int fd, size_t bytes);
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&&) = delete;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot();

  // Errors: kInvalidArgument if the slot is too small for them.
  [[nodiscard]] Result<std::span<const char>> Data(uint64_t bytes) const;
  [[nodiscard]] Result<std::string_view> TicketText(uint64_t data_bytes, uint64_t bytes) const;

  [[nodiscard]] bool Settle(SlotVerdict verdict) const { return SettleSlot(memory_, verdict); }

 private:
  Slot(char* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  char* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tide::sdk
