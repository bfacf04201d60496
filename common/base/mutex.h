#pragma once
// A mutex that clang's thread-safety analysis understands (clang -Wthread-safety checks that data
// marked TIDE_GUARDED_BY is only touched under its lock).

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TIDE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TIDE_THREAD_ANNOTATION(x)
#endif

#define TIDE_CAPABILITY(x) TIDE_THREAD_ANNOTATION(capability(x))
#define TIDE_SCOPED_CAPABILITY TIDE_THREAD_ANNOTATION(scoped_lockable)
#define TIDE_GUARDED_BY(x) TIDE_THREAD_ANNOTATION(guarded_by(x))
#define TIDE_REQUIRES(...) TIDE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TIDE_ACQUIRE(...) TIDE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TIDE_RELEASE(...) TIDE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TIDE_EXCLUDES(...) TIDE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace tide {

class TIDE_CAPABILITY("mutex") Mutex {
 public:
  void Lock() TIDE_ACQUIRE() { mutex_.lock(); }
  void Unlock() TIDE_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class TIDE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TIDE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() TIDE_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class Condition {
 public:
  void NotifyAll() { condition_.notify_all(); }
  // Waits for a notification or `nanos`; may wake up without a reason. nanos < 0 = no limit.
  void WaitFor(Mutex& mutex, int64_t nanos) TIDE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    if (nanos < 0) {
      condition_.wait(lock);
    } else {
      condition_.wait_for(lock, std::chrono::nanoseconds(nanos));
    }
    lock.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace tide
