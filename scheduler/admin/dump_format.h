#pragma once
// A dump, line by line: JSON, the same whichever database it comes from. docs/guide/operators.md
// shows one. A released format stays readable for ever.
//
//   {"tide_dump":1,"kind":"backup","schema":2,"tide":"0.1.0","taken_at":"…","store":"…"}
//   {"table":"counters","columns":["name","value"]}
//   ["next_job_id",13]                                             a row
//   {"end":true,"rows":{"counters":1},"crc32":"0a1b2c3d"}          of all bytes before this line
//
// A value is null, a string, a whole number, or a number with a point or an exponent. What JSON has
// not is an object: {"real":"inf"}, {"hex":"00ff"} for text that is no UTF-8.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "scheduler/store/database.h"

namespace tide::admin {

inline constexpr int kDumpFormat = 1;

enum class DumpKind {
  kBackup,
  kSnapshot,  // no history, and without what is nobody's business: for bug reports
};

struct DumpHeader {
  int format = kDumpFormat;
  DumpKind kind = DumpKind::kBackup;
  int schema = 0;
  std::string tide;  // the version of the program that wrote it
  std::string taken_at;
  std::string store;  // for people
  bool operator==(const DumpHeader&) const = default;
};

struct TableStart {
  std::string table;
  std::vector<std::string> columns;
  bool operator==(const TableStart&) const = default;
};

using RowCounts = std::map<std::string, int64_t>;  // by table

struct DumpFooter {
  RowCounts rows;
  std::string crc32;  // eight hexadecimal digits
  bool operator==(const DumpFooter&) const = default;
};

using DumpLine = std::variant<DumpHeader, TableStart, SqlRow, DumpFooter>;

// Without the line's end.
[[nodiscard]] std::string EncodeLine(const DumpLine& line);
//   Errors: kCorrupt, saying what is wrong; kNewerSchema for a later format.
[[nodiscard]] Result<DumpLine> DecodeLine(std::string_view text);

// CRC-32 as zip and PNG have it, over pieces.
class Crc32 {
 public:
  void Add(std::string_view bytes);
  [[nodiscard]] std::string Hex() const;

 private:
  uint32_t state_ = 0xffffffffU;
};

}  // namespace tide::admin
