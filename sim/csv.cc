#include "sim/csv.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <memory>

namespace tide::sim {
namespace {

constexpr unsigned kChunkBytes = 1U << 16U;
constexpr size_t kQuotedMax = 40;

// A field as a message shows it: short and printable.
std::string Quote(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, kQuotedMax)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return shown + (text.size() > kQuotedMax ? "…\"" : "\"");
}

std::string Shown(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

Result<std::string> ReadMaybeGzip(const std::string& path, size_t max_bytes) {
  // gzopen reads a file that is not gzip as it is.
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) {
    const int why = errno == 0 ? ENOMEM : errno;
    return why == ENOENT ? Fail(ErrorCode::kNotFound, "there is no file " + path)
                         : FailErrno("cannot open " + path, why);
  }
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kChunkBytes);
    const int got = gzread(file.get(), text.data() + before, kChunkBytes);
    if (got < 0) {
      int code = Z_OK;
      const std::string why = gzerror(file.get(), &code);
      return Fail(code == Z_ERRNO ? ErrorCode::kSystem : ErrorCode::kCorrupt,
                  "cannot read " + path + ": " + why);
    }
    text.resize(before + static_cast<size_t>(got));
    if (got == 0) {
      break;
    }
    if (text.size() > max_bytes) {
      return Fail(ErrorCode::kExhausted,
                  path + " holds more than " + std::to_string(max_bytes >> 20U) +
                      " MiB of text: cut it into parts");
    }
  }
  // A file that was cut short ends without an error of gzread.
  int code = Z_OK;
  const std::string why = gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    return Fail(ErrorCode::kCorrupt, "cannot read " + path + ": it ends too early (" + why + ")");
  }
  return text;
}

bool CsvReader::TakeLine() {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    current_ = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    if (current_.ends_with('\r')) {
      current_.remove_suffix(1);
    }
    if (!current_.empty()) {
      return true;
    }
  }
  return false;
}

void CsvReader::Split() {
  fields_.clear();
  size_t from = 0;
  for (;;) {
    const size_t comma = current_.find(',', from);
    fields_.push_back(current_.substr(from, comma - from));
    if (comma == std::string_view::npos) {
      return;
    }
    from = comma + 1;
  }
}

Status CsvReader::ReadHeader(std::string_view header) {
  if (!TakeLine()) {
    return Fail(ErrorCode::kInvalidArgument,
                path_ + ":1:1: the file is empty; expected the line " + std::string(header));
  }
  Split();
  if (current_ != header) {
    return Complain(0,
                    "the first line is " + Quote(current_) + "; expected " + std::string(header));
  }
  names_.assign(fields_.begin(), fields_.end());
  return {};
}

Result<bool> CsvReader::Next() {
  if (!TakeLine()) {
    return false;
  }
  Split();
  if (fields_.size() != names_.size()) {
    return Complain(fields_.size() - 1,
                    "the line has " + std::to_string(fields_.size()) + " fields; expected " +
                        std::to_string(names_.size()));
  }
  return true;
}

Result<std::string> CsvReader::Name(size_t field, size_t most) const {
  const std::string_view text = fields_[field];
  const bool steers = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  if (text.empty() || text.size() > most || steers) {
    return Complain(field,
                    names_[field] + " is " + Quote(text) + "; expected 1 to " +
                        std::to_string(most) + " bytes of text");
  }
  return std::string(text);
}

Result<int64_t> CsvReader::Integer(size_t field, int64_t low, int64_t high) const {
  const std::string_view text = fields_[field];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return Complain(field,
                    names_[field] + " is " + Quote(text) + "; expected a whole number from " +
                        std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Result<double> CsvReader::Decimal(size_t field, double low, double high) const {
  const std::string_view text = fields_[field];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < low || value > high) {
    return Complain(field,
                    names_[field] + " is " + Quote(text) + "; expected a number from " +
                        Shown(low) + " to " + Shown(high));
  }
  return value;
}

std::unexpected<Error> CsvReader::Complain(size_t field, const std::string& message) const {
  const size_t column =
      fields_.empty() ? 1 : static_cast<size_t>(fields_[field].data() - current_.data()) + 1;
  return Fail(ErrorCode::kInvalidArgument,
              path_ + ":" + std::to_string(line_) + ":" + std::to_string(column) + ": " + message);
}

}  // namespace tide::sim
