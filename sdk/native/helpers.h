#pragma once
// Threads that share one piece of work, as many of them as the system has.

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tide::sdk {

// Starts a thread in `threads`. False: the system has none left.
template <typename Thread, typename Work>
[[nodiscard]] bool StartHelper(std::vector<Thread>& threads, Work&& work) {
  try {
    threads.emplace_back(std::forward<Work>(work));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// Calls `work` in this thread and in at most `helpers` more, and returns when all have returned.
//   work: takes its next part of the whole until none is left; throws nothing.
template <typename Work>
void ShareOut(unsigned helpers, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(helpers);
  while (threads.size() < helpers && StartHelper(threads, work)) {
  }
  work();
}

}  // namespace tide::sdk
