#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/base/exit_codes.h"
#include "common/base/file.h"
#include "common/base/mutex.h"

namespace tide::cli {
namespace {

Mutex mutex;
std::string goodbye TIDE_GUARDED_BY(mutex);

void AwaitInterrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  int received = 0;
  sigwait(&signals, &received);
  const MutexLock lock(mutex);
  // Where stderr is gone there is nobody to tell.
  [[maybe_unused]] const Status said = WriteAll(STDERR_FILENO, "\n" + goodbye + "\n");
  ::_exit(kExitInterrupted);
}

}  // namespace

void OnInterruptSay(const std::string& message) {
  const MutexLock lock(mutex);
  const bool first = goodbye.empty();
  goodbye = message;
  if (first) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread(AwaitInterrupt).detach();
  }
}

}  // namespace tide::cli
