#pragma once
// Follows the kernel's log and hands out whole lines, each exactly once, also over restarts.
//
// The path may be /dev/kmsg (or another character device), a FIFO, or a regular file that is
// appended to, truncated, rotated, or does not exist yet. Everything is non-blocking; fd() goes
// into an event loop. One thread at a time.
//
// Invariants:
//   R1 Position() covers exactly the lines handed out: reopening there repeats and skips none.
//   R2 without a position (the very first start) only lines written after Open are handed out.
//   R3 a line is at most kMaxLine bytes; the rest of a longer one is dropped.
//   R4 lines known to be lost (ring buffer overrun, unknown rotation) raise gaps(); never an error.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::health {

constexpr size_t kMaxLine = 8192;

struct KernelLine {
  std::string text;  // without newline; a /dev/kmsg record without its header and escapes
  Instant read_at;   // time of reading, which is the fault's time
};

// What follows one kind of log. Implementations: kmsg_device, file_follower, fifo_source.
class LineSource {
 public:
  LineSource() = default;
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;
  virtual ~LineSource() = default;

  // Appends at most `max_lines`; returns whether there may be more right now.
  virtual Result<bool> Read(size_t max_lines, std::vector<std::string>& lines) = 0;
  [[nodiscard]] virtual int fd() const = 0;  // -1: never readable
  [[nodiscard]] virtual std::string Position() const = 0;
  [[nodiscard]] virtual uint64_t gaps() const = 0;
};

struct KmsgOptions {
  std::string path = "/dev/kmsg";
  std::string position;  // of an earlier reader of the same path; "" on the very first start
  std::string boot_id;   // "" = this machine's
};

class KmsgReader {
 public:
  // Errors: kPermissionDenied, kNotFound when the folder of the path does not exist, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<KmsgReader>> Open(const KmsgOptions& options);

  // Appends the lines that are there, at most `max_lines`. Never blocks. When more are waiting,
  // fd() stays readable.
  [[nodiscard]] Status Read(std::vector<KernelLine>& lines, size_t max_lines = 256);

  // Readable (level-triggered) when Read may have something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }

  // One line of text to be saved after what was handed out has been dealt with.
  [[nodiscard]] std::string Position() const { return source_->Position(); }

  // How often lines were lost.
  [[nodiscard]] uint64_t gaps() const { return source_->gaps(); }

 private:
  KmsgReader(std::unique_ptr<LineSource> source, Fd epoll, Fd more);
  void SetMore(bool more);

  std::unique_ptr<LineSource> source_;
  Fd epoll_;
  Fd more_;  // eventfd: readable while lines are waiting that `source_->fd()` does not announce
  bool more_set_ = false;
};

}  // namespace tide::health
