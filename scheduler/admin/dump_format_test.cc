#include "scheduler/admin/dump_format.h"

#include <catch2/catch.hpp>
#include <limits>

namespace tide::admin {
namespace {

using Limits = std::numeric_limits<double>;

DumpLine Again(const DumpLine& line) {
  const std::string text = EncodeLine(line);
  CHECK(text.find('\n') == std::string::npos);
  const auto decoded = DecodeLine(text);
  if (!decoded) {
    FAIL(text + ": " + decoded.error().message);
  }
  return *decoded;
}

TEST_CASE("every value of a row comes back, a real as a real") {
  const std::vector<SqlValue> values = {std::monostate{},
                                        int64_t{0},
                                        int64_t{INT64_MIN},
                                        int64_t{INT64_MAX},
                                        0.0,
                                        3.0,
                                        0.1 + 0.2,
                                        1e300,
                                        -5e-324,
                                        Limits::max(),
                                        Limits::infinity(),
                                        -Limits::infinity(),
                                        std::string(),
                                        std::string("\"\\\n\t\x01 € 𝄞 null"),
                                        std::string("x\0y", 3),
                                        std::string("\xff half \xc3")};
  for (const SqlValue& value : values) {
    const SqlRow row = {value, value};
    CAPTURE(EncodeLine(row));
    CHECK(std::get<SqlRow>(Again(row)) == row);
  }
  const auto row = std::get<SqlRow>(Again(SqlRow{std::nan("")}));
  CHECK(std::isnan(std::get<double>(row[0])));
  CHECK(std::get<SqlRow>(Again(SqlRow{})).empty());
}

TEST_CASE("header, table and footer come back") {
  const DumpHeader header = {
      kDumpFormat, DumpKind::kSnapshot, 7, "1.2.3", "2026-01-31", "db1 \"t\""};
  CHECK(std::get<DumpHeader>(Again(header)) == header);
  const TableStart start = {"jobs", {"id", "name"}};
  CHECK(std::get<TableStart>(Again(start)) == start);
  const DumpFooter footer = {{{"jobs", 12}, {"nodes", 0}}, "00ff00ff"};
  CHECK(std::get<DumpFooter>(Again(footer)) == footer);
}

TEST_CASE("what is no line of a dump is said to be none") {
  for (const char* text :
       {"",
        "{}",
        "12",
        "[1,",
        "[true]",
        "[18446744073709551615]",
        R"([{"hex":"0"}])",
        R"([{"real":"big"}])",
        R"({"table":"jobs"})",
        R"({"table":"jobs","columns":[1]})",
        R"({"end":true})",
        R"({"end":true,"rows":{"jobs":"1"},"crc32":""})",
        R"({"tide_dump":1})",
        R"({"tide_dump":1,"kind":"copy","schema":1,"tide":"","taken_at":"","store":""})"}) {
    CAPTURE(text);
    const auto line = DecodeLine(text);
    REQUIRE_FALSE(line);
    CHECK(line.error().code == ErrorCode::kCorrupt);
  }
  const auto later = DecodeLine(R"({"tide_dump":2,"surprise":true})");
  REQUIRE_FALSE(later);
  CHECK(later.error().code == ErrorCode::kNewerSchema);
}

TEST_CASE("the checksum is the usual CRC-32, also over pieces") {
  Crc32 crc;
  CHECK(crc.Hex() == "00000000");
  crc.Add("1234");
  crc.Add("56789");
  CHECK(crc.Hex() == "cbf43926");
}

}  // namespace
}  // namespace tide::admin
