#include "scheduler/admin/dump_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "scheduler/store/testing/temp_dir.h"

namespace tide::admin {
namespace {

using Catch::Contains;
using tide::testing::TempDir;

void WriteSmallDump(const std::string& path) {
  auto file = DumpWriter::Create(path);
  REQUIRE(file);
  REQUIRE((*file)->Write(DumpHeader{}));
  REQUIRE((*file)->Write(TableStart{"counters", {"name", "value"}}));
  REQUIRE((*file)->Write(SqlRow{"next_job_id", int64_t{13}}));
  REQUIRE((*file)->Finish({{"counters", 1}}));
}

// Reads to the footer.
Status ReadAll(const std::string& path) {
  TIDE_ASSIGN(const auto reader, DumpReader::Open(path));
  TIDE_TRY(reader->ReadHeader());
  while (true) {
    TIDE_ASSIGN(const DumpLine line, reader->Read());
    if (std::holds_alternative<DumpFooter>(line)) {
      return {};
    }
  }
}

TEST_CASE("a dump is there when it is whole, and only its owner's to read") {
  const TempDir dir;
  const std::string path = dir.File("backup");
  {
    auto file = DumpWriter::Create(path);
    REQUIRE(file);
    REQUIRE((*file)->Write(DumpHeader{}));
    CHECK(std::filesystem::is_empty(dir.File("")));  // so nothing stays where it is killed
  }
  CHECK(std::filesystem::is_empty(dir.File("")));
  std::ofstream(path) << "an older one";
  WriteSmallDump(path);
  CHECK(ReadAll(path));
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  const std::filesystem::directory_iterator all(dir.File(""));
  CHECK(std::distance(begin(all), end(all)) == 1);
}

TEST_CASE("where no file can be, that is said") {
  const TempDir dir;
  CHECK(DumpWriter::Create(dir.File("")).error().code == ErrorCode::kInvalidArgument);
  CHECK(DumpWriter::Create("/dev/null").error().code == ErrorCode::kInvalidArgument);
  const auto nowhere = DumpWriter::Create(dir.File("no/such/folder"));
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::kSystem);
  CHECK_THAT(nowhere.error().message, Contains("no/such/folder") && Contains("check that"));
  CHECK(DumpReader::Open(dir.File("none")).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a dump that lost or changed any byte is refused") {
  const TempDir dir;
  const std::string path = dir.File("backup");
  WriteSmallDump(path);
  const std::string whole = *ReadFile(path);
  const auto is_refused = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    const Status read = ReadAll(path);
    return !read && (read.error().code == ErrorCode::kCorrupt ||
                     read.error().code == ErrorCode::kNewerSchema);
  };
  CHECK_FALSE(is_refused(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(is_refused(whole.substr(0, size)));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 1;
    CAPTURE(changed);
    CHECK(is_refused(changed));
  }
  CHECK(is_refused(whole + "x"));
  CHECK(is_refused(whole + whole));
}

}  // namespace
}  // namespace tide::admin
