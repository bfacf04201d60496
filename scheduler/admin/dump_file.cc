#include "scheduler/admin/dump_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <utility>

namespace tide::admin {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr size_t kLineMax = size_t{1} << 30;  // PostgreSQL's largest value is smaller

std::unexpected<Error> CannotWrite(const std::string& path) {
  return Fail(ErrorCode::kSystem,
              FailErrno("cannot write " + path, errno).error().message +
                  ": check that its folder exists, is writable and has space");
}

std::unexpected<Error> Damaged(const std::string& place, const std::string& what) {
  return Fail(ErrorCode::kCorrupt,
              place + ": " + what + "; the dump is damaged: fetch it again, or take another one");
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    return FailErrno("cannot sync folder " + folder, errno);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DumpWriter>> DumpWriter::Create(const std::string& path) {
  std::unique_ptr<DumpWriter> writer(new DumpWriter(path));
  if (path == "-") {
    writer->path_ = "standard output";
    writer->fd_ = Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    return writer->fd_.valid() ? Result<std::unique_ptr<DumpWriter>>(std::move(writer))
                               : CannotWrite(writer->path_);
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, path + " is no file: name one, or - for a pipe");
  }
  // Without a name until it is whole: whatever ends this program leaves nothing behind.
  writer->fd_ = Fd(::open(FolderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (writer->fd_.valid() && ::access("/proc/self/fd", X_OK) == 0) {
    writer->nameless_ = true;
    return writer;
  }
  std::string temporary = path + ".tmpXXXXXX";  // not every file system has such files
  writer->fd_ = Fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!writer->fd_.valid()) {
    return CannotWrite(path);
  }
  writer->temporary_ = std::move(temporary);
  return writer;
}

DumpWriter::~DumpWriter() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

Status DumpWriter::Write(const DumpLine& line) {
  const std::string text = EncodeLine(line) + "\n";
  crc_.Add(text);
  return Append(text);
}

Status DumpWriter::Append(const std::string& line) {
  bytes_ += line.size();
  buffer_ += line;
  return buffer_.size() < kBuffer ? Status() : Flush();
}

Status DumpWriter::Flush() {
  if (!WriteAll(fd_.get(), buffer_)) {
    return CannotWrite(path_);
  }
  buffer_.clear();
  return {};
}

Status DumpWriter::Finish(const RowCounts& rows) {
  TIDE_TRY(Append(EncodeLine(DumpFooter{rows, crc_.Hex()}) + "\n"));
  TIDE_TRY(Flush());
  if (temporary_.empty() && !nameless_) {
    return {};
  }
  if (::fsync(fd_.get()) != 0) {
    return CannotWrite(path_);
  }
  if (nameless_) {
    TIDE_TRY(GiveName());
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return CannotWrite(path_);
  }
  temporary_.clear();
  return SyncFolderOf(path_);
}

// A link replaces no file, so the name is one of its own first.
Status DumpWriter::GiveName() {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_.get());
  std::random_device random;
  std::string name;
  do {
    name = path_ + ".tmp" + std::to_string(random());
    errno = 0;
  } while (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0 &&
           errno == EEXIST);
  if (errno != 0) {
    return CannotWrite(path_);
  }
  temporary_ = name;
  nameless_ = false;
  return {};
}

Result<std::unique_ptr<DumpReader>> DumpReader::Open(const std::string& path) {
  const bool piped = path == "-";
  std::unique_ptr<DumpReader> reader(new DumpReader(piped ? "standard input" : path));
  reader->fd_ = Fd(piped ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                         : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reader->fd_.valid()) {
    const bool missing = errno == ENOENT;
    return Fail(missing ? ErrorCode::kNotFound : ErrorCode::kSystem,
                FailErrno("cannot read " + path, errno).error().message);
  }
  return reader;
}

Result<bool> DumpReader::Fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t had = buffer_.size();
  buffer_.resize(had + kBuffer);
  ssize_t n = 0;
  do {
    n = ::read(fd_.get(), buffer_.data() + had, kBuffer);
  } while (n < 0 && errno == EINTR);
  buffer_.resize(had + static_cast<size_t>(n < 0 ? 0 : n));
  if (n < 0) {
    return FailErrno("cannot read " + name_, errno);
  }
  return n > 0;
}

// With its end, so that the checksum is of what was written.
Result<std::string> DumpReader::NextLine() {
  size_t searched = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(begin_, end + 1 - begin_);
      begin_ = end + 1;
      ++line_;
      return line;
    }
    searched = buffer_.size() - begin_;
    if (searched > kLineMax) {
      return Damaged(Place(), "the line after it has no end");
    }
    TIDE_ASSIGN(const bool more, Fill());
    if (!more) {
      return Damaged(Place(), "the file ends here, without its footer");
    }
  }
}

Result<DumpHeader> DumpReader::ReadHeader() {
  auto text = NextLine();
  auto line = text ? DecodeLine(*text) : std::unexpected(text.error());
  if (!line && line.error().code != ErrorCode::kCorrupt) {
    return Fail(line.error().code, name_ + ": " + line.error().message);
  }
  if (!line || !std::holds_alternative<DumpHeader>(*line)) {
    return Fail(ErrorCode::kCorrupt,
                name_ +
                    " is no dump of Tide's: name a file that `tide admin backup` wrote, "
                    "unpacked");
  }
  crc_.Add(*text);
  return std::get<DumpHeader>(*line);
}

Result<DumpLine> DumpReader::Read() {
  TIDE_ASSIGN(const std::string text, NextLine());
  auto line = DecodeLine(text);
  if (!line) {
    return Damaged(Place(), line.error().message);
  }
  const std::string crc32 = crc_.Hex();
  crc_.Add(text);
  if (const auto* start = std::get_if<TableStart>(&*line)) {
    table_ = start->table;
    if (!rows_.emplace(table_, 0).second) {
      return Damaged(Place(), "table " + table_ + " comes twice");
    }
  } else if (std::holds_alternative<SqlRow>(*line)) {
    if (table_.empty()) {
      return Damaged(Place(), "a row of no table");
    }
    ++rows_[table_];
  } else if (const auto* footer = std::get_if<DumpFooter>(&*line)) {
    TIDE_TRY(CheckEnd(*footer, crc32));
  } else {
    return Damaged(Place(), "a second header");
  }
  return line;
}

Status DumpReader::CheckEnd(const DumpFooter& footer, const std::string& crc32) {
  if (footer.crc32 != crc32) {
    return Damaged(Place(), "the checksum is " + crc32 + " and should be " + footer.crc32);
  }
  if (footer.rows != rows_) {
    return Damaged(Place(), "the numbers of rows are not those of the footer");
  }
  TIDE_ASSIGN(const bool more, Fill());
  if (more || begin_ < buffer_.size()) {
    return Damaged(Place(), "something follows the footer");
  }
  return {};
}

std::string DumpReader::Place() const {
  return name_ + " line " + std::to_string(line_);
}

}  // namespace tide::admin
