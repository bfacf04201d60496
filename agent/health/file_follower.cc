// A regular file that grows. Two files may be open at a time: the one being read, and the one that
// took over its name. Reading moves on when the first is read to its end and the second has
// content: a log rotator makes the new file before the writer has let go of the old one.

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "agent/health/sources.h"
#include "common/health/cursor.h"

namespace tide::health {
namespace {

constexpr size_t kChunk = 65536;
constexpr uint64_t kHashedBytes = 64;
constexpr size_t kMaxFolderEntries = 65536;

struct FilePosition {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
  uint64_t hash = 0;
};

// "file <device> <inode> <offset> <hash>", all zero when the file did not exist.
std::optional<FilePosition> ParsePosition(std::string_view text) {
  Cursor c(text);
  FilePosition position;
  if (!c.Take("file")) {
    return std::nullopt;
  }
  for (uint64_t* field : {&position.device, &position.inode, &position.offset, &position.hash}) {
    if (!c.Take(" ")) {
      return std::nullopt;
    }
    const std::string_view digits = c.TakeWhile([](char ch) { return ch != ' '; });
    const char* const end = std::to_address(digits.end());
    const auto parsed = std::from_chars(std::to_address(digits.begin()), end, *field, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return std::nullopt;
    }
  }
  return c.AtEnd() ? std::optional(position) : std::nullopt;
}

struct OpenedFile {
  Fd fd;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;   // start of the first line not handed out
  uint64_t scanned = 0;  // no newline in [offset, scanned)
  int watch = -1;

  [[nodiscard]] bool IsSame(uint64_t other_device, uint64_t other_inode) const {
    return fd.valid() && device == other_device && inode == other_inode;
  }
  [[nodiscard]] uint64_t Size() const {
    struct stat info{};
    return ::fstat(fd.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }
  void MoveTo(uint64_t to) {
    offset = to;
    scanned = to;
  }
};

// Reads up to `size` bytes; short at the end of the file or on an error.
size_t ReadAt(const Fd& fd, uint64_t offset, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(fd.get(), data + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    done += static_cast<size_t>(n);
  }
  return done;
}

// FNV-1a of the bytes before `offset`: tells a file from another one that got its inode number.
uint64_t HashBefore(const Fd& fd, uint64_t offset) {
  std::array<char, kHashedBytes> bytes{};
  const uint64_t start = offset > kHashedBytes ? offset - kHashedBytes : 0;
  const size_t n = ReadAt(fd, start, bytes.data(), static_cast<size_t>(offset - start));
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3ULL;
  }
  return hash ^ n;
}

std::string FormatPosition(const FilePosition& p) {
  std::array<char, 96> text{};
  std::snprintf(text.data(),
                text.size(),
                "file %llx %llx %llx %llx",
                static_cast<unsigned long long>(p.device),
                static_cast<unsigned long long>(p.inode),
                static_cast<unsigned long long>(p.offset),
                static_cast<unsigned long long>(p.hash));
  return text.data();
}

OpenedFile OpenRegular(const std::string& path) {
  OpenedFile file;
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (fd.valid() && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) {
    file.fd = std::move(fd);
    file.device = info.st_dev;
    file.inode = info.st_ino;
  }
  return file;
}

class FileFollower final : public LineSource {
 public:
  FileFollower(std::string path, Fd inotify)
      : path_(std::move(path)), inotify_(std::move(inotify)) {}

  void StartAtEnd() {
    Current(OpenRegular(path_));
    if (current_.fd.valid()) {
      current_.MoveTo(LineStartBefore(current_.Size()));
    }
  }

  void StartAt(const FilePosition& saved) {
    Current(OpenRegular(path_));
    if (saved.inode == 0) {
      return;  // the file did not exist then: all of it is new
    }
    if (Matches(current_, saved)) {
      current_.MoveTo(saved.offset);
      return;
    }
    OpenedFile rotated = FindRotated(saved);
    if (rotated.fd.valid()) {
      Current(std::move(rotated));
      current_.MoveTo(saved.offset);
      LookForNext();
    } else {
      ++gaps_;
    }
  }

  Result<bool> Read(size_t max_lines, std::vector<std::string>& lines) override {
    DrainEvents();
    LookForNext();
    const size_t limit = lines.size() + max_lines;
    while (true) {
      if (current_.fd.valid()) {
        ReadLines(limit, lines);
      }
      if (lines.size() >= limit) {
        return true;
      }
      if (!next_.fd.valid() || next_.Size() == 0) {
        return false;
      }
      EndCurrent(lines);
      Current(std::move(next_));
      next_ = OpenedFile();
    }
  }

  [[nodiscard]] int fd() const override { return inotify_.get(); }
  [[nodiscard]] std::string Position() const override {
    if (!current_.fd.valid()) {
      return FormatPosition({});
    }
    return FormatPosition({current_.device,
                           current_.inode,
                           current_.offset,
                           HashBefore(current_.fd, current_.offset)});
  }
  [[nodiscard]] uint64_t gaps() const override { return gaps_; }

 private:
  // Makes `file` the one that is read and watched.
  void Current(OpenedFile file) {
    if (current_.watch >= 0 && current_.watch != file.watch) {
      ::inotify_rm_watch(inotify_.get(), current_.watch);
    }
    current_ = std::move(file);
    Watch(current_);
  }

  void Watch(OpenedFile& file) {
    if (file.fd.valid() && file.watch < 0) {
      // By descriptor: the name may belong to another file by now.
      const std::string name = "/proc/self/fd/" + std::to_string(file.fd.get());
      file.watch = ::inotify_add_watch(inotify_.get(), name.c_str(), IN_MODIFY);
    }
  }

  void DrainEvents() {
    std::array<char, 4096> events{};
    while (::read(inotify_.get(), events.data(), events.size()) > 0) {
    }
  }

  // Has the name been given to another file?
  void LookForNext() {
    OpenedFile found = OpenRegular(path_);
    if (!found.fd.valid() || current_.IsSame(found.device, found.inode) ||
        next_.IsSame(found.device, found.inode)) {
      return;
    }
    if (!current_.fd.valid()) {
      Current(std::move(found));
      return;
    }
    if (next_.watch >= 0) {
      ::inotify_rm_watch(inotify_.get(), next_.watch);
    }
    next_ = std::move(found);
    Watch(next_);
  }

  [[nodiscard]] static bool Matches(const OpenedFile& file, const FilePosition& saved) {
    return file.IsSame(saved.device, saved.inode) && file.Size() >= saved.offset &&
           HashBefore(file.fd, saved.offset) == saved.hash;
  }

  // The file that was read before the restart, under the name a rotation gave it.
  [[nodiscard]] OpenedFile FindRotated(const FilePosition& saved) const {
    std::error_code error;
    size_t seen = 0;
    const auto folder = std::filesystem::path(path_).parent_path();
    for (std::filesystem::directory_iterator it(folder.empty() ? "." : folder, error), end;
         !error && it != end && seen < kMaxFolderEntries;
         it.increment(error), ++seen) {
      struct stat info{};
      if (::lstat(it->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
          info.st_ino == saved.inode && info.st_dev == saved.device) {
        OpenedFile file = OpenRegular(it->path());
        return Matches(file, saved) ? std::move(file) : OpenedFile();
      }
    }
    return {};
  }

  // Start of the line that holds the byte before `end`, so that a line being written at the first
  // start is seen whole. A longer one than kMaxLine counts as old.
  [[nodiscard]] uint64_t LineStartBefore(uint64_t end) const {
    std::array<char, kMaxLine> bytes{};
    const uint64_t start = end > kMaxLine ? end - kMaxLine : 0;
    const size_t n = ReadAt(current_.fd, start, bytes.data(), static_cast<size_t>(end - start));
    const std::string_view text(bytes.data(), n);
    const size_t newline = text.rfind('\n');
    if (newline != std::string_view::npos) {
      return start + newline + 1;
    }
    return start == 0 ? 0 : end;
  }

  void ReadLines(size_t limit, std::vector<std::string>& lines) {
    if (current_.Size() < current_.scanned) {  // truncated: a new log in the same file
      current_.MoveTo(0);
    }
    std::vector<char> chunk(kChunk);
    while (lines.size() < limit) {
      const size_t n = ReadAt(current_.fd, current_.scanned, chunk.data(), chunk.size());
      if (n == 0) {
        return;
      }
      const uint64_t base = current_.scanned;
      size_t at = 0;
      while (at < n && lines.size() < limit) {
        const void* const newline = std::memchr(chunk.data() + at, '\n', n - at);
        if (newline == nullptr) {
          current_.scanned = base + n;
          break;
        }
        const auto end = static_cast<size_t>(static_cast<const char*>(newline) - chunk.data());
        if (current_.offset >= base) {
          lines.emplace_back(chunk.data() + at, std::min(end - at, kMaxLine));
        } else {
          HandOut(base + end, lines);
        }
        current_.MoveTo(base + end + 1);
        at = end + 1;
      }
    }
  }

  // The bytes from current_.offset to `end`, cut.
  void HandOut(uint64_t end, std::vector<std::string>& lines) const {
    std::string line(static_cast<size_t>(std::min<uint64_t>(end - current_.offset, kMaxLine)), ' ');
    line.resize(ReadAt(current_.fd, current_.offset, line.data(), line.size()));
    lines.push_back(std::move(line));
  }

  // Nobody will end the last line of a file that lost its name.
  void EndCurrent(std::vector<std::string>& lines) {
    if (current_.scanned > current_.offset) {
      HandOut(current_.scanned, lines);
      current_.MoveTo(current_.scanned);
    }
  }

  std::string path_;
  Fd inotify_;
  OpenedFile current_;
  OpenedFile next_;
  uint64_t gaps_ = 0;
};

}  // namespace

Result<std::unique_ptr<LineSource>> OpenFileFollower(const std::string& path,
                                                     const std::string& position) {
  Fd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify.valid()) {
    return FailErrno("cannot watch " + path, errno);
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (::inotify_add_watch(inotify.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Fail(ErrorCode::kNotFound,
                  "cannot follow " + path + ": there is no folder " + folder + "; make it first");
    }
    return FailErrno("cannot watch " + folder, errno);
  }
  auto follower = std::make_unique<FileFollower>(path, std::move(inotify));
  if (const auto saved = ParsePosition(position)) {
    follower->StartAt(*saved);
  } else {
    follower->StartAtEnd();
  }
  return follower;
}

}  // namespace tide::health
