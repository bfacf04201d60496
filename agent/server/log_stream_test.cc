#include "agent/server/log_stream.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "agent/logs/testing_folder.h"
#include "common/base/prng.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

using Chunks = std::vector<tide::v1::LogChunk>;

tide::v1::ReadLogRequest AllBytes() {
  tide::v1::ReadLogRequest request;
  request.set_tail_lines(-1);
  return request;
}

struct Reader {
  const LogsFolder& folder;
  std::function<bool()> is_over = [] { return true; };
  std::function<void(const tide::v1::LogChunk&)> on_chunk = [](const tide::v1::LogChunk&) {};
  Chunks chunks = {};

  Status Read(const tide::v1::ReadLogRequest& request) {
    chunks.clear();
    return LogStream({.folder = folder.path(),
                      .name = "rank 0 of task 7.1.0",
                      .is_over = is_over,
                      .cancelled = [] { return false; },
                      .send =
                          [this](const tide::v1::LogChunk& chunk) {
                            chunks.push_back(chunk);
                            on_chunk(chunk);
                            return true;
                          }},
                     request)
        .Run();
  }
  std::string Text(const tide::v1::ReadLogRequest& request) {
    const Status read = Read(request);
    INFO((read ? "" : read.error().message));
    CHECK(read);
    std::string text;
    for (const auto& chunk : chunks) {
      text += chunk.data();
    }
    return text;
  }
};

void FiveLines(LogsFolder& folder) {
  folder.Write("loss 5\n", 10);
  folder.Write("other\n", 20, kStderrStream);
  folder.Write("loss 4\n", 30);
  folder.Rotate();
  folder.Write("loss 3\n", 40);
  folder.Write("loss 2", 50);
}

TEST_CASE("log stream: times choose lines") {
  LogsFolder folder;
  FiveLines(folder);
  struct Case {
    int64_t since;
    int64_t until;
    int64_t tail;
    std::string text;
  };
  for (const Case& each : std::vector<Case>{{0, 0, -1, "loss 5\nother\nloss 4\nloss 3\nloss 2"},
                                            {20, 0, -1, "other\nloss 4\nloss 3\nloss 2"},
                                            {21, 0, -1, "loss 4\nloss 3\nloss 2"},
                                            {0, 40, -1, "loss 5\nother\nloss 4\n"},
                                            {20, 40, -1, "other\nloss 4\n"},
                                            {51, 0, -1, ""},
                                            {40, 40, -1, ""},
                                            {50, 20, -1, ""},
                                            {0, 0, 2, "loss 3\nloss 2"},
                                            {50, 0, 2, "loss 2"},
                                            {1, 0, 1, "loss 2"}}) {
    INFO(each.since << " to " << each.until << ", tail " << each.tail);
    tide::v1::ReadLogRequest request = AllBytes();
    request.set_since(each.since);
    request.set_until(each.until);
    request.set_tail_lines(each.tail);
    Reader reader{folder};
    CHECK(reader.Text(request) == each.text);
    request.set_follow(true);  // the task is over, so it ends all the same
    CHECK(reader.Text(request) == each.text);
  }
}

TEST_CASE("log stream: marks say when, and to which stream") {
  LogsFolder folder;
  FiveLines(folder);
  Reader reader{folder};
  tide::v1::ReadLogRequest request = AllBytes();
  request.set_marks(true);
  request.set_offset(7);
  CHECK(reader.Text(request) == "other\nloss 4\nloss 3\nloss 2");
  REQUIRE(reader.chunks[0].marks_size() == 2);
  CHECK(reader.chunks[0].marks(0).at() == 20);
  CHECK(reader.chunks[0].marks(0).stream() == kStderrStream);
  CHECK(reader.chunks[0].marks(1).begin() == 6);
  CHECK(reader.chunks[0].marks(1).offset() == 13);
}

TEST_CASE("log stream: lines that match") {
  LogsFolder folder;
  FiveLines(folder);
  Reader reader{folder};
  tide::v1::ReadLogRequest request = AllBytes();
  request.set_grep("LOSS [2-4]");
  request.set_ignore_case(true);
  CHECK(reader.Text(request) == "loss 4\nloss 3\nloss 2\n");
  REQUIRE(reader.chunks.size() == 1);
  CHECK(reader.chunks[0].marks(1).offset() == 20);
  CHECK(reader.chunks[0].marks(1).at() == 40);
  CHECK(reader.chunks[0].next() == 33);
  request.set_until(50);
  CHECK(reader.Text(request) == "loss 4\nloss 3\n");
  request.set_until(0);
  request.set_tail_lines(2);
  CHECK(reader.Text(request) == "loss 3\nloss 2\n");
  request.set_tail_lines(-1);
  request.set_max_lines(2);
  CHECK(reader.Text(request) == "loss 4\nloss 3\n");
  CHECK(reader.chunks.back().cut());
  request.set_max_lines(3);
  CHECK(reader.Text(request) == "loss 4\nloss 3\nloss 2\n");
  CHECK_FALSE(reader.chunks.back().cut());
  request.set_literal(true);
  CHECK(reader.Text(request).empty());
  request.set_literal(false);
  request.set_grep("(");
  CHECK(reader.Read(request).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("log stream: what is gone is counted") {
  LogsFolder folder;
  FiveLines(folder);
  folder.DropOldest();
  Reader reader{folder};
  tide::v1::ReadLogRequest request = AllBytes();
  request.set_offset(3);
  CHECK(reader.Text(request) == "loss 3\nloss 2");
  CHECK(reader.chunks[0].removed() == 17);
  CHECK(reader.chunks[0].offset() == 20);
  request.set_grep("2");
  CHECK(reader.Text(request) == "loss 2\n");
  CHECK(reader.chunks[0].removed() == 17);
}

TEST_CASE("log stream: a task that is not here has no log, one that wrote nothing an empty one") {
  const LogsFolder folder;
  Reader reader{folder, [] { return false; }};
  CHECK(reader.Text(AllBytes()).empty());
  std::filesystem::remove_all(folder.path());
  const Status missing = reader.Read(AllBytes());
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
}

TEST_CASE("log stream: who waits for a rank that has written nothing is told so") {
  const LogsFolder folder;
  Reader reader{folder, [] { return false; }};
  tide::v1::ReadLogRequest request = AllBytes();
  request.set_follow(true);
  int asked = 0;
  reader.is_over = [&] { return ++asked > 2; };
  CHECK(reader.Text(request).empty());
  CHECK(reader.chunks.at(0).caught_up());
}

// The writer appends, rotates and deletes while readers follow: each gets every byte once, or is
// told how many it missed.
TEST_CASE("log stream: following sees no gap and no repeat over segments") {
  for (const bool search : {false, true}) {
    LogsFolder folder;
    std::atomic<bool> over = false;
    std::atomic<uint64_t> read = 0;
    std::string all;
    std::thread writer([&] {
      Prng random(3);
      for (int i = 0; i < 2000; ++i) {
        const std::string line = std::to_string(i) + std::string(random.Below(50), 'x') + "\n";
        const size_t cut = random.Below(line.size());
        folder.Write(line.substr(0, cut), i + 1);
        folder.Write(line.substr(cut), i + 1);
        all += line;
        if (random.Below(100) == 0) {
          folder.Rotate();
        }
      }
      over = true;
    });
    Reader reader{folder, [&] { return over.load(); }};
    tide::v1::ReadLogRequest request = AllBytes();
    request.set_follow(true);
    request.set_marks(true);
    request.set_grep(search ? "^[0-9]" : "");
    const std::string text = reader.Text(request);
    writer.join();
    INFO(std::mismatch(text.begin(), text.end(), all.begin(), all.end()).first - text.begin());
    CHECK(text.size() == all.size());
    CHECK((text == all));
  }
}

}  // namespace
}  // namespace tide::agent
