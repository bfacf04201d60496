#include "agent/server/guarded_page.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace tide::agent {
namespace {

constexpr size_t kSlots = 4096;

struct Slot {
  std::atomic<char*> page = nullptr;  // nullptr = free
  std::atomic<bool> cut = false;
};
static_assert(std::atomic<char*>::is_always_lock_free, "a signal handler reads it");

// For ever in place: a signal may come at any time.
constinit std::array<Slot, kSlots> g_slots;  // NOLINT: the handler has no other way to its data
constinit char g_taken = 0;  // NOLINT: stands for a page that is being made or unmade

bool Holds(const char* page, const void* address) {
  const auto begin = reinterpret_cast<uintptr_t>(page);
  const auto at = reinterpret_cast<uintptr_t>(address);
  return page != nullptr && page != &g_taken && at >= begin && at < begin + GuardedPage::kBytes;
}

// Only what is allowed in a signal handler: atomics, and mmap, which is a plain system call.
void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  for (Slot& slot : g_slots) {
    char* page = slot.page.load();
    if (Holds(page, info->si_addr)) {
      slot.cut = true;  // first: who reads the zeros sees the mark
      const void* zeros = ::mmap(page,
                                 GuardedPage::kBytes,
                                 PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                                 -1,
                                 0);
      if (zeros == page) {
        errno = error;
        return;  // the access is tried again
      }
    }
  }
  ::signal(SIGBUS, SIG_DFL);  // not of a page: a fault of this program, which now ends it
}

void InstallHandler() {
  static const bool kInstalled = [] {
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)kInstalled;
}

}  // namespace

Result<GuardedPage> GuardedPage::Map(int fd) {
  InstallHandler();
  for (size_t index = 0; index < kSlots; ++index) {
    Slot& slot = g_slots[index];
    char* expected = nullptr;
    if (!slot.page.compare_exchange_strong(expected, &g_taken)) {
      continue;
    }
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      const int error = errno;
      slot.page = nullptr;
      return FailErrno("mmap", error);
    }
    slot.cut = false;
    slot.page = static_cast<char*>(memory);
    return GuardedPage(static_cast<char*>(memory), index);
  }
  return Fail(ErrorCode::kExhausted,
              std::to_string(kSlots) + " ranks are on this node already, finished ones included");
}

GuardedPage::GuardedPage(GuardedPage&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), slot_(other.slot_) {}

GuardedPage::~GuardedPage() {
  if (data_ != nullptr) {
    g_slots[slot_].page = &g_taken;  // before the address can be another page's
    ::munmap(data_, kBytes);
    g_slots[slot_].page = nullptr;
  }
}

bool GuardedPage::IsCut() const {
  return g_slots[slot_].cut.load();
}

}  // namespace tide::agent
