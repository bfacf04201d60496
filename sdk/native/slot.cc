#include "sdk/native/slot.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "sdk/native/data_file.h"

namespace tide::sdk {

bool SettleSlot(void* slot, SlotVerdict verdict) {
  const std::atomic_ref<uint32_t> word(*static_cast<uint32_t*>(slot));
  auto open = static_cast<uint32_t>(SlotVerdict::kOpen);
  return word.compare_exchange_strong(open, static_cast<uint32_t>(verdict));
}

Result<Slot> Slot::Map(int fd, size_t bytes) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    return FailErrno("cannot look at a staging slot", errno);
  }
  if (bytes < kSlotDataAt || static_cast<uint64_t>(info.st_size) < bytes) {
    return Fail(ErrorCode::kInvalidArgument, "a staging slot is shorter than the rank says");
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map a staging slot", errno);
  }
  return Slot(static_cast<char*>(memory), bytes);
}

Slot::Slot(Slot&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Slot::~Slot() {
  if (memory_ != nullptr) {
    ::munmap(memory_, bytes_);
  }
}

Result<std::span<const char>> Slot::Data(uint64_t bytes) const {
  const uint64_t room = (bytes_ - kSlotDataAt) / kBlockBytes * kBlockBytes;
  if (bytes > room) {
    return Fail(ErrorCode::kInvalidArgument, "staged data is longer than its slot");
  }
  return std::span<const char>(memory_ + kSlotDataAt, bytes);
}

Result<std::string_view> Slot::TicketText(uint64_t data_bytes, uint64_t bytes) const {
  TIDE_ASSIGN(const std::span<const char> data, Data(data_bytes));
  const uint64_t at = kSlotDataAt + (data.size() + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  if (bytes > bytes_ - at) {
    return Fail(ErrorCode::kInvalidArgument, "a save's ticket is longer than its slot");
  }
  return std::string_view(memory_ + at, bytes);
}

}  // namespace tide::sdk
