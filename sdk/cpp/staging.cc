#include "sdk/cpp/staging.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "sdk/cpp/memory_room.h"
#include "sdk/cpp/text.h"
#include "sdk/native/copy.h"
#include "sdk/native/slot.h"

namespace tide::cpp {
namespace {

// A slot gets this much more than asked for: tickets grow, and a new slot costs fresh memory.
constexpr uint64_t kSparePart = 32;
constexpr uint64_t kSlotGrain = 2U << 20U;

}  // namespace

StagingSlot::StagingSlot(size_t slot_index, uint64_t slot_bytes, Fd file, char* mapped)
    : index(slot_index), bytes(slot_bytes), fd(std::move(file)), memory(mapped) {}

StagingSlot::~StagingSlot() {
  ::munmap(memory, bytes);
}

Result<std::shared_ptr<StagingSlot>> StagingSlot::Make(size_t index, uint64_t bytes) {
  const std::string name = "tide-slot-" + std::to_string(index);
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return FailErrno("cannot make a staging slot", errno);
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map a staging slot", errno);
  }
  return std::shared_ptr<StagingSlot>(
      new StagingSlot(index, bytes, std::move(fd), static_cast<char*>(memory)));
}

void StagingSlot::Fill(const Layout& layout, const std::string& ticket) {
  // The saver looks at it once it has been told of this save.
  const auto verdict = sdk::SlotVerdict::kOpen;
  std::memcpy(memory, &verdict, sizeof(verdict));
  char* const data = memory + sdk::kSlotDataAt;
  FillFile(layout, data);
  std::copy(ticket.begin(), ticket.end(), data + PaddedBytes(layout));
}

uint64_t SlotBytes(const Layout& layout, uint64_t ticket_bytes) {
  return sdk::kSlotDataAt + PaddedBytes(layout) + ticket_bytes;
}

StagingSlots::Taken StagingSlots::Take(uint64_t bytes) {
  Taken taken;
  size_t chosen = 0;
  for (size_t index = slots_.size(); index-- > 0;) {
    const std::shared_ptr<StagingSlot>& slot = slots_.at(index);
    if (slot != nullptr && slot->busy) {
      continue;
    }
    // One that is large enough first: its pages are there already.
    const bool fits = slot != nullptr && slot->bytes >= bytes;
    if (fits || taken.slot == nullptr) {
      chosen = index;
      taken.slot = fits ? slot : nullptr;
    }
    taken.is_free = true;
  }
  if (taken.is_free && taken.slot == nullptr) {
    taken.slot = Make(chosen, bytes);
  }
  if (taken.slot != nullptr) {
    taken.slot->busy = true;
  }
  return taken;
}

void StagingSlots::Prepare(uint64_t bytes, bool wait) {
  std::vector<std::shared_ptr<StagingSlot>> made;
  for (size_t index = 0; index < slots_.size(); ++index) {
    const std::shared_ptr<StagingSlot>& slot = slots_.at(index);
    const bool is_kept = slot != nullptr && (slot->busy || slot->bytes >= bytes);
    if (is_kept || Make(index, bytes) != nullptr) {
      made.push_back(slots_.at(index));
    }
  }
  const auto populate = [made = std::move(made)](const std::stop_token& stop) {
    for (const std::shared_ptr<StagingSlot>& slot : made) {
      if (stop.stop_requested() || !sdk::Populate(slot->memory, slot->bytes)) {
        return;
      }
    }
  };
  try {
    preparing_ = std::jthread(populate);
  } catch (const std::system_error&) {
    preparing_ = std::jthread();  // none is left: the first saves pay for their pages
  }
  if (wait && preparing_.joinable()) {
    preparing_.join();
  }
}

std::shared_ptr<StagingSlot> StagingSlots::Make(size_t index, uint64_t bytes) {
  const uint64_t wanted = (bytes + bytes / kSparePart + kSlotGrain - 1) / kSlotGrain * kSlotGrain;
  std::shared_ptr<StagingSlot>& slot = slots_.at(index);
  slot.reset();
  if (!HasRoom(wanted)) {
    Say(std::to_string(wanted >> 20U) + " MiB of memory for staging are not there");
    return nullptr;
  }
  Result<std::shared_ptr<StagingSlot>> made = StagingSlot::Make(index, wanted);
  if (!made) {
    Say(made.error().message);
    return nullptr;
  }
  slot = std::move(*made);
  return slot;
}

void StagingSlots::Say(const std::string& why) {
  if (!has_said_) {
    has_said_ = true;
    Warn(why + "; checkpoints are written while training waits");
  }
}

}  // namespace tide::cpp
