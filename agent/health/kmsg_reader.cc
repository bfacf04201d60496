#include "agent/health/kmsg_reader.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/health/sources.h"

namespace tide::health {
namespace {

Result<std::string> BootId() {
  TIDE_ASSIGN(std::string id, ReadFile("/proc/sys/kernel/random/boot_id", 128));
  while (!id.empty() && (id.back() == '\n' || id.back() == ' ')) {
    id.pop_back();
  }
  return id;
}

Result<std::unique_ptr<LineSource>> OpenDevice(const KmsgOptions& options) {
  Fd fd(::open(options.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EACCES || error == EPERM) {
      return Fail(ErrorCode::kPermissionDenied,
                  "cannot read " + options.path +
                      ": run the agent as root, or give it CAP_SYSLOG, or name another log with "
                      "--kmsg");
    }
    return FailErrno("cannot open " + options.path, error);
  }
  std::string boot_id = options.boot_id;
  if (boot_id.empty()) {
    TIDE_ASSIGN(boot_id, BootId());
  }
  return OpenKmsgDevice(std::move(fd), options.position, boot_id);
}

Result<std::unique_ptr<LineSource>> OpenSource(const KmsgOptions& options) {
  struct stat info{};
  if (::stat(options.path.c_str(), &info) != 0) {
    if (errno != ENOENT) {
      return FailErrno("cannot look at " + options.path, errno);
    }
    return OpenFileFollower(options.path, options.position);
  }
  if (S_ISCHR(info.st_mode)) {
    return OpenDevice(options);
  }
  if (S_ISFIFO(info.st_mode)) {
    return OpenFifo(options.path);
  }
  if (S_ISREG(info.st_mode)) {
    return OpenFileFollower(options.path, options.position);
  }
  return Fail(ErrorCode::kInvalidArgument,
              options.path + " is no log: expected a device, a FIFO or a file");
}

}  // namespace

KmsgReader::KmsgReader(std::unique_ptr<LineSource> source, Fd epoll, Fd more)
    : source_(std::move(source)), epoll_(std::move(epoll)), more_(std::move(more)) {}

Result<std::unique_ptr<KmsgReader>> KmsgReader::Open(const KmsgOptions& options) {
  TIDE_ASSIGN(auto source, OpenSource(options));
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd more(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll.valid() || !more.valid()) {
    return FailErrno("cannot make a wake-up for " + options.path, errno);
  }
  for (const int fd : {source->fd(), more.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    // EPERM: a device such as /dev/null that never has anything to say.
    if (fd >= 0 && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EPERM) {
      return FailErrno("cannot wait for " + options.path, errno);
    }
  }
  std::unique_ptr<KmsgReader> reader(
      new KmsgReader(std::move(source), std::move(epoll), std::move(more)));
  reader->SetMore(true);  // what was written while nobody read is announced by no event
  return reader;
}

Status KmsgReader::Read(std::vector<KernelLine>& lines, size_t max_lines) {
  std::vector<std::string> texts;
  const auto more = source_->Read(max_lines, texts);
  const Instant now = SystemNow();
  for (std::string& text : texts) {
    lines.push_back({std::move(text), now});
  }
  if (!more) {
    SetMore(false);
    return std::unexpected(more.error());
  }
  SetMore(*more);
  return {};
}

void KmsgReader::SetMore(bool more) {
  if (more == more_set_) {
    return;
  }
  uint64_t count = 1;
  const ssize_t done = more ? ::write(more_.get(), &count, sizeof(count))
                            : ::read(more_.get(), &count, sizeof(count));
  if (done == sizeof(count)) {
    more_set_ = more;
  }
}

}  // namespace tide::health
