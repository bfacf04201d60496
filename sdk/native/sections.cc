#include "sdk/native/sections.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sdk/native/crc32.h"

namespace tide::sdk {
namespace {

constexpr size_t kWordBytes = sizeof(int64_t);
constexpr size_t kLeastWords = 2;  // of a row: tensor and offset

std::unexpected<Error> Unfit() {
  return Fail(ErrorCode::kCorrupt, "the table of boxes does not fit");
}

std::string RankText(size_t rank) {
  return "rank " + std::to_string(rank) + ": ";
}

Status ReadAt(int fd, uint64_t at, std::span<char> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(at));
    if (n == 0) {
      return Fail(ErrorCode::kCorrupt, "the file ends at byte " + std::to_string(at));
    }
    if (n < 0 && errno != EINTR) {
      return FailErrno("cannot read", errno);
    }
    if (n > 0) {
      at += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
  }
  return {};
}

bool Meet(std::span<const int64_t> one, std::span<const int64_t> other) {
  for (size_t i = 0; i < one.size(); i += 2) {
    if (std::max(one[i], other[i]) >= std::min(one[i + 1], other[i + 1])) {
      return false;
    }
  }
  return true;
}

Status FindIn(std::string_view table,
              size_t rank,
              const Wanted& wanted,
              std::vector<int64_t>& found) {
  TIDE_ASSIGN(const std::vector<int64_t> words, WordsOf(table));
  Rows rows(words, wanted.dims);
  for (;;) {
    TIDE_ASSIGN(const std::optional<Row> row, rows.Next());
    if (!row) {
      return {};
    }
    const int64_t place = wanted.places[static_cast<size_t>(row->tensor)];
    if (place >= 0 &&
        Meet(row->borders,
             wanted.borders.subspan(static_cast<size_t>(place), row->borders.size()))) {
      found.insert(found.end(), {static_cast<int64_t>(rank), row->tensor, row->offset});
      found.insert(found.end(), row->borders.begin(), row->borders.end());
    }
  }
}

}  // namespace

SectionRecord RecordOf(std::string_view text, std::string_view table) {
  const uint32_t crc = Crc32(0, text.data(), text.size());
  return {
      .text = text.size(), .table = table.size(), .crc32 = Crc32(crc, table.data(), table.size())};
}

Result<std::vector<int64_t>> WordsOf(std::string_view table) {
  if (table.size() % kWordBytes != 0) {
    return Unfit();
  }
  std::vector<int64_t> words(table.size() / kWordBytes);
  if (!words.empty()) {
    std::memcpy(words.data(), table.data(), table.size());
  }
  return words;
}

Result<std::optional<Row>> Rows::Next() {
  if (words_.empty()) {
    return std::optional<Row>();
  }
  const int64_t tensor = words_[0];
  if (tensor < 0 || std::cmp_greater_equal(tensor, dims_.size())) {
    return Unfit();
  }
  const size_t borders = 2 * dims_[static_cast<size_t>(tensor)];
  if (words_.size() < kLeastWords + borders) {
    return Unfit();
  }
  const Row row{
      .tensor = tensor, .offset = words_[1], .borders = words_.subspan(kLeastWords, borders)};
  words_ = words_.subspan(kLeastWords + borders);
  return std::optional(row);
}

Status FindRows(int fd,
                std::span<const SectionRecord> sections,
                const Wanted& wanted,
                std::vector<int64_t>& found) {
  const bool any = std::ranges::any_of(wanted.places, [](int64_t place) { return place >= 0; });
  std::string content;
  uint64_t at = 0;
  for (size_t rank = 0; rank < sections.size(); ++rank) {
    const SectionRecord& record = sections[rank];
    content.resize(record.text + record.table);
    if (Status read = ReadAt(fd, at, content); !read) {
      Error error = read.error();
      error.message = RankText(rank) + error.message;
      return std::unexpected(std::move(error));
    }
    const std::string_view text = std::string_view(content).substr(0, record.text);
    const std::string_view table = std::string_view(content).substr(record.text);
    if (RecordOf(text, table) != record) {
      return Fail(ErrorCode::kCorrupt, RankText(rank) + "the section does not match its CRC-32");
    }
    if (Status looked = any ? FindIn(table, rank, wanted, found) : Status(); !looked) {
      return Fail(looked.error().code, RankText(rank) + looked.error().message);
    }
    at += content.size();
  }
  return {};
}

}  // namespace tide::sdk
