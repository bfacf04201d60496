#pragma once
// A mapped page of a file that its other user may cut short. Reading behind the end of a mapped
// file is SIGBUS, which would end the agent: here it ends the page. The first access behind the
// end puts a private page of zeros in its place and marks it as cut, so that words of the page are
// read and written by plain atomics all the time.
//
// Threads: any.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/base/result.h"

namespace tide::agent {

class GuardedPage {
 public:
  static constexpr size_t kBytes = 4096;

  // Maps the first kBytes of `fd`, shared and writable; the file must be that long.
  // Errors: kSystem, kExhausted beyond 4096 pages at a time.
  [[nodiscard]] static Result<GuardedPage> Map(int fd);

  GuardedPage(GuardedPage&& other) noexcept;
  GuardedPage& operator=(GuardedPage&&) = delete;
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;
  ~GuardedPage();

  [[nodiscard]] char* data() const { return data_; }
  // The file was cut short and that was noticed: what was read since may be zeros. To be asked
  // after reading.
  [[nodiscard]] bool IsCut() const;

 private:
  GuardedPage(char* data, size_t slot) : data_(data), slot_(slot) {}

  char* data_ = nullptr;
  size_t slot_ = 0;
};

}  // namespace tide::agent
