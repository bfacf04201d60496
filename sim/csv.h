#pragma once
// Comma-separated files as traces are: one header line, fields without quotes. Messages name
// file, line and column.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::sim {

// Reads a file, plain or gzip, whole.
//   Errors: kNotFound, kSystem, kCorrupt; kExhausted when longer than `max_bytes`.
[[nodiscard]] Result<std::string> ReadMaybeGzip(const std::string& path, size_t max_bytes);

// One line after another; the fields of the current one.
class CsvReader {
 public:
  // text must outlive the reader.
  CsvReader(std::string path, std::string_view text) : path_(std::move(path)), text_(text) {}

  // Reads the first line. Errors: kInvalidArgument when it is not `header`.
  [[nodiscard]] Status ReadHeader(std::string_view header);
  // Goes to the next line that is not empty; false at the end. Errors: a line whose number of
  // fields is not the header's.
  [[nodiscard]] Result<bool> Next();

  [[nodiscard]] std::string_view Text(size_t field) const { return fields_[field]; }
  // A name of 1 to `most` bytes, none of which steers a terminal.
  [[nodiscard]] Result<std::string> Name(size_t field, size_t most) const;
  // A whole number in [low, high]. `name` is the field's, for the message.
  [[nodiscard]] Result<int64_t> Integer(size_t field, int64_t low, int64_t high) const;
  // A decimal number in [low, high].
  [[nodiscard]] Result<double> Decimal(size_t field, double low, double high) const;
  // "FILE:LINE:COLUMN: " and then `message`.
  [[nodiscard]] std::unexpected<Error> Complain(size_t field, const std::string& message) const;
  [[nodiscard]] uint32_t line() const { return line_; }

 private:
  bool TakeLine();
  void Split();

  std::string path_;
  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 0;
  std::string_view current_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> names_;
};

}  // namespace tide::sim
