#include "sim/trace.h"

#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "sim/csv.h"
#include "sim/testing/traces.h"
#include "sim/workload.h"

namespace tide::sim {
namespace {

std::string WithLine(const char* line) {
  return testing::Lines({kTraceHeader, line});
}

std::string Complaint(const std::string& text) {
  const auto trace = ParseTrace("t.csv", text);
  REQUIRE_FALSE(trace.has_value());
  return trace.error().message;
}

// A file that is gone when the test ends.
struct TempFile {
  explicit TempFile(const std::string& name)
      : path((std::filesystem::temp_directory_path() / ("tide-sim-" + name)).string()) {}
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

void WriteGzip(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  REQUIRE(gzclose(file) == Z_OK);
}

}  // namespace

TEST_CASE("trace: fields, order, rounding") {
  const auto trace =
      ParseTrace("t.csv", WithLine("7,20,1.6,16,8,ada,g,ok,high\n8,10.4,0,1,1,-,g,ok,x\r"));
  REQUIRE(trace.has_value());
  REQUIRE(trace->jobs.size() == 2);
  const TraceJob& first = trace->jobs[0];  // sorted by submit time
  CHECK(first.id == "8");
  CHECK(first.submit_s == 10);
  CHECK(first.duration_s == 1);  // at least a second
  const TraceJob& second = trace->jobs[1];
  CHECK(second.duration_s == 2);
  CHECK(second.gpus == 16);
  CHECK(second.user == "ada");
  CHECK(second.kind == "high");
  CHECK(second.line == 2);
}

TEST_CASE("trace: every mistake has its place, what was expected and what was found") {
  CHECK(Complaint("") ==
        "t.csv:1:1: the file is empty; expected the line job_id,submit_s,duration_s,gpus,"
        "gpus_per_node,user,group,status,kind");
  CHECK(
      Complaint("a,b\n1,2\n").starts_with("t.csv:1:1: the first line is \"a,b\"; expected job_id"));
  CHECK(Complaint(testing::Lines({kTraceHeader})) ==
        "t.csv:2:1: there is no job; expected at least one");
  CHECK(Complaint(WithLine("1,2,3")) == "t.csv:2:5: the line has 3 fields; expected 9");
  CHECK(Complaint(WithLine(",2,3,8,8,u,g,s,k")) ==
        "t.csv:2:1: job_id is \"\"; expected 1 to 100 bytes of text");
  CHECK(Complaint(WithLine("a\x1b,2,3,8,8,u,g,s,k")).starts_with("t.csv:2:1: job_id is \"a"));
  CHECK(Complaint(WithLine("1,-2,3,8,8,u,g,s,k")) ==
        "t.csv:2:3: submit_s is \"-2\"; expected a number from 0 to 1000000000");
  CHECK(Complaint(WithLine("1,2,nan,8,8,u,g,s,k")).starts_with("t.csv:2:5: duration_s is \"nan\""));
  CHECK(Complaint(WithLine("1,2,3,0,8,u,g,s,k")) ==
        "t.csv:2:7: gpus is \"0\"; expected a whole number from 1 to 1000000");
  CHECK(Complaint(WithLine("1,2,3,4,8,u,g,s,k")) ==
        "t.csv:2:9: gpus_per_node is \"8\"; expected a whole number from 1 to 4");
  CHECK(Complaint(WithLine("1,2,3,8 ,8,u,g,s,k")).starts_with("t.csv:2:7: gpus is \"8 \""));
  // What a message shows cannot steer a terminal.
  CHECK(Complaint(WithLine("\x1b[2J,2,3,8,8,u,g,s,k")).find('\x1b') == std::string::npos);
}

TEST_CASE("trace: plain and gzip files read alike, damaged ones do not") {
  const std::string text = WithLine("1,2,3,8,8,u,g,s,k");
  const TempFile gzip("a.csv.gz");
  WriteGzip(gzip.path, text);
  CHECK(ReadMaybeGzip(gzip.path, 1U << 20U) == text);
  CHECK(ReadTrace(gzip.path).has_value());
  CHECK(ReadMaybeGzip(gzip.path, 10).error().code == ErrorCode::kExhausted);
  CHECK(ReadTrace(gzip.path + ".none").error().code == ErrorCode::kNotFound);

  std::filesystem::resize_file(gzip.path, std::filesystem::file_size(gzip.path) - 9);
  CHECK(ReadTrace(gzip.path).error().code == ErrorCode::kCorrupt);
}

TEST_CASE("workload: users by job, by column, by number; submit times divided") {
  auto trace = *ParseTrace("t.csv", WithLine("1,5,3,8,8,u,g,s,k\n2,14,3,8,8,v,g,s,k"));
  AssignUsers(trace, *ParseUserRule("column"), 1);
  CHECK(trace.jobs[1].user == "v");
  AssignUsers(trace, *ParseUserRule("1"), 1);
  CHECK(trace.jobs[0].user == trace.jobs[1].user);
  AssignUsers(trace, *ParseUserRule("job"), 1);
  CHECK(trace.jobs[0].user != trace.jobs[1].user);
  trace.jobs[1].group = "-";
  AssignProjects(trace, *ParseProjectRule("column"));
  CHECK(trace.jobs[0].project == "g");
  CHECK(trace.jobs[1].project.empty());
  AssignProjects(trace, *ParseProjectRule("none"));
  CHECK(trace.jobs[0].project.empty());
  CHECK_FALSE(ParseProjectRule("g").has_value());
  Compress(trace, 5);
  CHECK(trace.jobs[0].submit_s == 1);
  CHECK(trace.jobs[1].submit_s == 2);
  CHECK_FALSE(ParseUserRule("0").has_value());
  CHECK_FALSE(ParseUserRule("some").has_value());
}

TEST_CASE("which jobs save is drawn by the seed, about as many as asked for") {
  CHECK(*ParseSavesRule("share:0.7,every:30m") == SavesRule{0.7, 1800});
  CHECK(*ParseSavesRule("every:90s") == SavesRule{1, 90});
  CHECK(*ParseSavesRule("share:1") == SavesRule{1, 1800});
  for (const char* text : {"",
                           "0.7",
                           "share:2",
                           "share:-1",
                           "share:nan",
                           "share:",
                           "share:0.5x",
                           "every:30",
                           "every:0s",
                           "often:1",
                           "share:0.7;every:30m"}) {
    CAPTURE(text);
    const auto rule = ParseSavesRule(text);
    REQUIRE_FALSE(rule.has_value());
    CHECK(rule.error().code == ErrorCode::kInvalidArgument);
  }
  Trace trace;
  trace.jobs.resize(10'000);
  AssignSaves(trace, {0.7, 0}, 1);
  const auto count = [&] { return std::ranges::count(trace.jobs, true, &TraceJob::saves); };
  CHECK(std::abs(count() - 7000) < 200);
  AssignSaves(trace, {1, 0}, 1);
  CHECK(count() == 10'000);
}

}  // namespace tide::sim
