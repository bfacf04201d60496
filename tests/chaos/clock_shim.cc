// A system clock that can be stepped for one process: LD_PRELOAD this, and name in CHAOS_CLOCK a
// file of 8 bytes with the difference in nanoseconds. Whoever writes the file steps the clock.
//
// What reads the clock is told a shifted time; what waits until a time of the clock waits until the
// moment that this is in truth. Other clocks are let be, as a step of the real one does.
//
// Threads: any. The file is only read, as one aligned word.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

const int64_t* MapOffset() {
  const char* path = std::getenv("CHAOS_CLOCK");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return nullptr;
  }
  void* page = ::mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  return page == MAP_FAILED ? nullptr : static_cast<const int64_t*>(page);
}

int64_t Offset() {
  static const int64_t* const kOffset = MapOffset();
  return kOffset == nullptr ? 0 : __atomic_load_n(kOffset, __ATOMIC_RELAXED);
}

timespec Shifted(const timespec& at, int64_t by) {
  const int64_t ns = at.tv_sec * kSecond + at.tv_nsec + by;
  return ns < 0 ? timespec{0, 0} : timespec{ns / kSecond, ns % kSecond};
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

bool IsSystemClock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

// glibc: a condition variable of CLOCK_MONOTONIC says so in its second bit.
bool IsMonotonic(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2U) != 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* at) {
  static const auto kNext = Next<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = kNext(clock, at);
  if (result == 0 && IsSystemClock(clock)) {
    *at = Shifted(*at, Offset());
  }
  return result;
}

int gettimeofday(timeval* at, void* /*zone*/) {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *at = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

time_t time(time_t* at) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) {
    *at = now.tv_sec;
  }
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* at) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto kNext = Next<Wait>("pthread_cond_timedwait");
  const timespec truth = Shifted(*at, IsMonotonic(condition) ? 0 : -Offset());
  return kNext(condition, mutex, &truth);
}

int pthread_cond_clockwait(pthread_cond_t* condition,
                           pthread_mutex_t* mutex,
                           clockid_t clock,
                           const timespec* at) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto kNext = Next<Wait>("pthread_cond_clockwait");
  const timespec truth = Shifted(*at, IsSystemClock(clock) ? -Offset() : 0);
  return kNext(condition, mutex, clock, &truth);
}

int sem_timedwait(sem_t* semaphore, const timespec* at) {
  static const auto kNext = Next<int (*)(sem_t*, const timespec*)>("sem_timedwait");
  const timespec truth = Shifted(*at, -Offset());
  return kNext(semaphore, &truth);
}

// Abseil's locks wait by the system call itself.
long syscall(long number, ...) {
  using Call = long (*)(long, long, long, long, long, long, long);
  static const auto kNext = Next<Call>("syscall");
  long words[6];
  va_list rest;
  va_start(rest, number);
  for (long& word : words) {
    word = va_arg(rest, long);
  }
  va_end(rest);
  timespec truth{};
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0 && words[3] != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the system call has only numbers
    truth = Shifted(*reinterpret_cast<const timespec*>(words[3]), -Offset());
    words[3] = reinterpret_cast<long>(&truth);
  }
  return kNext(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // extern "C"
