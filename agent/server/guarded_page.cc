#include "agent/server/guarded_page.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace tide::agent {
namespace {

constexpr size_t kSlots = 4096;
constexpr uintptr_t kFree = 0;
constexpr uintptr_t kTaken = 1;  // no page begins there

struct Slot {
  std::atomic<uintptr_t> address = kFree;
  std::atomic<bool> cut = false;
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free, "a signal handler reads it");

// For ever in place: a signal may come at any time.
constinit std::array<Slot, kSlots> g_slots;  // NOLINT: the handler has no other way to its data

// Only what is allowed in a signal handler: atomics, and mmap, which is a plain system call.
void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const auto fault = reinterpret_cast<uintptr_t>(info->si_addr);
  const uintptr_t page = fault & ~(uintptr_t{GuardedPage::kBytes} - 1);
  for (Slot& slot : g_slots) {
    if (slot.address.load() == page) {
      slot.cut = true;  // first: who reads the zeros sees the mark
      ::mmap(reinterpret_cast<void*>(page),
             GuardedPage::kBytes,
             PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1,
             0);
      errno = error;
      return;  // the access is tried again
    }
  }
  ::signal(SIGBUS, SIG_DFL);  // not of a page: a fault of this program, which now ends it
}

void InstallHandler() {
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)installed;
}

}  // namespace

Result<GuardedPage> GuardedPage::Map(int fd) {
  InstallHandler();
  for (size_t index = 0; index < kSlots; ++index) {
    Slot& slot = g_slots[index];
    uintptr_t expected = kFree;
    if (!slot.address.compare_exchange_strong(expected, kTaken)) {
      continue;
    }
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      const int error = errno;
      slot.address = kFree;
      return FailErrno("mmap", error);
    }
    slot.cut = false;
    slot.address = reinterpret_cast<uintptr_t>(memory);
    return GuardedPage(static_cast<char*>(memory), index);
  }
  return Fail(ErrorCode::kExhausted,
              std::to_string(kSlots) + " ranks are on this node already, finished ones included");
}

GuardedPage::GuardedPage(GuardedPage&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), slot_(other.slot_) {}

GuardedPage::~GuardedPage() {
  if (data_ != nullptr) {
    g_slots[slot_].address = kTaken;  // before the address can be another page's
    ::munmap(data_, kBytes);
    g_slots[slot_].address = kFree;
  }
}

bool GuardedPage::IsCut() const {
  return g_slots[slot_].cut.load();
}

}  // namespace tide::agent
