#pragma once
// Files that survive a crash: whole reads with a bound, and atomic writes, durable or not.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Close(); }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int Release();
  void Close();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read_end;
  Fd write_end;
};

// Makes a pipe that no program started later inherits. Errors: kSystem.
[[nodiscard]] Result<Pipe> MakePipe();

// Makes a standard input that ends at once and belongs to its holder alone. An OCI runtime may give
// what it has as its input to the container's user (crun 1.8, runc 1.1.3): given /dev/null, the
// user would own that of the whole node. Errors: kSystem.
[[nodiscard]] Result<Fd> MakeEmptyInput();

// Reads a whole file. Errors: kNotFound, kExhausted when longer than `max_bytes`, kSystem.
[[nodiscard]] Result<std::string> ReadFile(const std::string& path, size_t max_bytes = 64U << 20U);

// Reads at most the last `max_bytes` of a file. Errors: kNotFound, kSystem.
[[nodiscard]] Result<std::string> ReadTail(const std::string& path, size_t max_bytes);

// Writes to a temporary name, fsyncs, renames, fsyncs the folder: after return the new content
// survives a power cut; before, the old content does.
[[nodiscard]] Status WriteFileDurably(const std::string& path,
                                      std::string_view content,
                                      unsigned mode = 0600);
// Does so with content in pieces, which follow each other without a gap.
[[nodiscard]] Status WriteFileDurably(const std::string& path,
                                      std::span<const std::string_view> pieces,
                                      unsigned mode = 0600);

// The same without the fsyncs: the new content survives the death of every process, at once. After
// a power cut the file may be empty, or not be there.
[[nodiscard]] Status ReplaceFile(const std::string& path,
                                 std::string_view content,
                                 unsigned mode = 0600);

[[nodiscard]] Status MakeDirs(const std::string& path, unsigned mode = 0700);
[[nodiscard]] Status WriteAll(int fd, std::string_view data);

}  // namespace tide
