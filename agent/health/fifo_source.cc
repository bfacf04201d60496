#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "agent/health/sources.h"

namespace tide::health {
namespace {

class FifoSource final : public LineSource {
 public:
  explicit FifoSource(Fd fd) : fd_(std::move(fd)) {}

  Result<bool> Read(size_t max_lines, std::vector<std::string>& lines) override {
    size_t n = 0;
    while (true) {
      while (n < max_lines && next_ < size_) {
        n += TakeByte(buffer_[next_++], lines) ? 1 : 0;
      }
      if (n == max_lines) {
        return true;
      }
      const ssize_t got = ::read(fd_.get(), buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0 && errno != EAGAIN) {
        return FailErrno("cannot read the log", errno);
      }
      next_ = 0;
      size_ = got > 0 ? static_cast<size_t>(got) : 0;
      if (size_ == 0) {
        return false;
      }
    }
  }

  [[nodiscard]] int fd() const override { return fd_.get(); }
  [[nodiscard]] std::string Position() const override { return "fifo"; }
  [[nodiscard]] uint64_t gaps() const override { return 0; }

 private:
  bool TakeByte(char byte, std::vector<std::string>& lines) {
    if (byte != '\n') {
      if (line_.size() < kMaxLine) {
        line_.push_back(byte);
      }
      return false;
    }
    lines.push_back(std::exchange(line_, {}));
    return true;
  }

  Fd fd_;
  std::string line_;  // not ended yet
  std::array<char, 4096> buffer_{};
  size_t next_ = 0;
  size_t size_ = 0;
};

}  // namespace

Result<std::unique_ptr<LineSource>> OpenFifo(const std::string& path) {
  // Read-write keeps the FIFO open between writers: no end of file, no busy loop.
  Fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("cannot open " + path, errno);
  }
  return std::make_unique<FifoSource>(std::move(fd));
}

}  // namespace tide::health
