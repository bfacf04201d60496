#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace tide {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int Fd::Release() {
  return std::exchange(fd_, -1);
}

void Fd::Close() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return FailErrno("cannot create a pipe", errno);
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<Fd> MakeEmptyInput() {
  TIDE_ASSIGN(Pipe pipe, MakePipe());
  return std::move(pipe.read_end);
}

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) {
      return Fail(ErrorCode::kNotFound, path + ": no such file");
    }
    return FailErrno("cannot open " + path, errno);
  }
  // Most files are small; parts that grow read large ones in few calls.
  constexpr size_t kFirstPart = 4096;
  constexpr size_t kLargestPart = 1U << 20U;
  std::string content;
  size_t part = kFirstPart;
  while (true) {
    const size_t before = content.size();
    ssize_t n = 0;
    content.resize_and_overwrite(before + part, [&](char* data, size_t /*size*/) {
      n = ::read(fd.get(), data + before, part);
      return before + static_cast<size_t>(std::max<ssize_t>(n, 0));
    });
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return FailErrno("cannot read " + path, errno);
    }
    if (n == 0) {
      return content;
    }
    part = std::min(2 * part, kLargestPart);
    if (content.size() > max_bytes) {
      return Fail(ErrorCode::kExhausted,
                  path + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

Result<std::string> ReadTail(const std::string& path, size_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return Fail(ErrorCode::kNotFound, path + " cannot be read");
  }
  const auto size = static_cast<size_t>(info.st_size);
  const size_t begin = size > max_bytes ? size - max_bytes : 0;
  std::string content(size - begin, '\0');
  const ssize_t n = ::pread(fd.get(), content.data(), content.size(), static_cast<off_t>(begin));
  if (n < 0) {
    return FailErrno("cannot read " + path, errno);
  }
  content.resize(static_cast<size_t>(n));
  return content;
}

Status WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return FailErrno("cannot write", errno);
    }
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

namespace {

Status Replace(const std::string& path,
               std::span<const std::string_view> pieces,
               unsigned mode,
               bool durably) {
  // A name that nobody can foresee, opened only if it is new: in a folder that others may write,
  // no link or file of theirs takes part.
  std::string temporary = path + ".tmpXXXXXX";
  Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("cannot create " + temporary, errno);
  }
  Status written;
  for (const std::string_view piece : pieces) {
    written = written ? WriteAll(fd.get(), piece) : written;
  }
  if (written && (::fchmod(fd.get(), mode) != 0 || (durably && ::fsync(fd.get()) != 0))) {
    written = FailErrno("cannot sync " + temporary, errno);
  }
  fd.Close();
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = FailErrno("cannot rename " + temporary, errno);
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return Fail(written.error().code, path + ": " + written.error().message);
  }
  return {};
}

}  // namespace

Status ReplaceFile(const std::string& path, std::string_view content, unsigned mode) {
  return Replace(path, {&content, 1}, mode, false);
}

Status WriteFileDurably(const std::string& path, std::string_view content, unsigned mode) {
  return WriteFileDurably(path, std::span(&content, 1), mode);
}

Status WriteFileDurably(const std::string& path,
                        std::span<const std::string_view> pieces,
                        unsigned mode) {
  TIDE_TRY(Replace(path, pieces, mode, true));
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid() || ::fsync(dir.get()) != 0) {
    return FailErrno("cannot sync folder " + folder, errno);
  }
  return {};
}

Status MakeDirs(const std::string& path, unsigned mode) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return {};
  }
  // Mostly only the last folder is missing.
  size_t end = ::mkdir(path.c_str(), mode) == 0 ? std::string::npos : 1;
  while (end != std::string::npos) {
    end = path.find('/', end);
    const std::string prefix = path.substr(0, end);
    if (::mkdir(prefix.c_str(), mode) != 0 && errno != EEXIST) {
      return FailErrno("cannot create folder " + prefix, errno);
    }
    if (end != std::string::npos) {
      ++end;
    }
  }
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kSystem, path + " is not a folder");
  }
  return {};
}

}  // namespace tide
