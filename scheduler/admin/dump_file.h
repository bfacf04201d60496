#pragma once
// A dump as a file, or a pipe ("-").
// Invariants:
//  1 a file appears under its name only when it is whole and on disk, readable by its owner alone.
//  2 the reader gives the footer out only where everything before it is what was written.

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/file.h"
#include "scheduler/admin/dump_format.h"

namespace tide::admin {

class DumpWriter {
 public:
  //   path: "-" for standard output. A file that is there is replaced at the end.
  //   Errors: kInvalidArgument for what is there and no file; kSystem.
  [[nodiscard]] static Result<std::unique_ptr<DumpWriter>> Create(const std::string& path);
  // Takes an unfinished file away.
  ~DumpWriter();
  DumpWriter(const DumpWriter&) = delete;
  DumpWriter& operator=(const DumpWriter&) = delete;

  [[nodiscard]] Status Write(const DumpLine& line);
  // Ends it with its footer.
  [[nodiscard]] Status Finish(const RowCounts& rows);

  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  explicit DumpWriter(std::string path) : path_(std::move(path)) {}
  Status Append(const std::string& line);
  Status Flush();
  Status GiveName();

  std::string path_;  // for messages where it is a pipe
  bool nameless_ = false;
  std::string temporary_;  // name until it is whole; "" = it has none
  Fd fd_;
  std::string buffer_;
  Crc32 crc_;
  size_t bytes_ = 0;
};

class DumpReader {
 public:
  //   path: "-" for standard input.   Errors: kNotFound, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<DumpReader>> Open(const std::string& path);
  DumpReader(const DumpReader&) = delete;
  DumpReader& operator=(const DumpReader&) = delete;

  // The first line.   Errors: kCorrupt for another file; kNewerSchema for a later format.
  [[nodiscard]] Result<DumpHeader> ReadHeader();
  // One line after the other; the footer is the last.   Errors: kCorrupt, naming the line.
  [[nodiscard]] Result<DumpLine> Read();

  // "FILE line 12", the one read last: for messages.
  [[nodiscard]] std::string Place() const;

 private:
  explicit DumpReader(std::string name) : name_(std::move(name)) {}
  Result<std::string> NextLine();
  Result<bool> Fill();  // false: the end
  Status CheckEnd(const DumpFooter& footer, const std::string& crc32);

  std::string name_;
  Fd fd_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet read in buffer_
  bool ended_ = false;
  int64_t line_ = 0;
  Crc32 crc_;
  RowCounts rows_;
  std::string table_;
};

}  // namespace tide::admin
