#include "sdk/native/save.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/native/crc32.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/part.h"
#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;
constexpr const char* kStart = "d998b860";

struct Memory {
  explicit Memory(size_t length, char fill) : bytes(length) {
    const size_t room = (bytes / kBlockBytes + 1) * kBlockBytes;
    start.reset(static_cast<char*>(std::aligned_alloc(kBlockBytes, room)));
    std::memset(start.get(), fill, room);
  }
  [[nodiscard]] std::span<const char> span() const { return {start.get(), bytes}; }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> start;
  size_t bytes;
};

// One tensor "w" of four bytes a rank.
Ticket MakeTicket(const std::string& folder, int64_t rank, int64_t world, size_t bytes) {
  Ticket ticket;
  ticket.folder = folder;
  ticket.start = kStart;
  ticket.directory =
      folder + "/" +
      FormatCheckpointId({.step = 7, .attempt = 1, .start = kStart, .generation = 1});
  ticket.step = 7;
  ticket.attempt = 1;
  ticket.rank = rank;
  ticket.world = world;
  ticket.keep = 2;
  ticket.deadline_ns = MonotonicNanos() + kPatienceNs;
  ticket.file = "d" + std::to_string(rank);
  ticket.job = "\"j\"";
  const std::string range = "[" + std::to_string(rank) + "," + std::to_string(rank + 1) + "]";
  ticket.part_head = R"({"format":"tide-checkpoint/2","step":7,"start":"d998b860","world":)" +
                     std::to_string(world) + R"(,"files":{")" + ticket.file + R"(":{"bytes":)" +
                     std::to_string(bytes) + R"(,"crc32":)";
  ticket.part_tail = R"(}},"tensors":{"w":{"dtype":"F32","shape":[)" + std::to_string(world) +
                     R"(],"parts":[{"file":")" + ticket.file +
                     R"(","offset":0,"length":4,"range":)" + range + R"(}]}},"global":{})";
  ticket.shared = R"({"replicated":{"a":1e+22,"b":2},"sharded":{},"boxes":{}})";
  ticket.text = R"({"r":)" + std::to_string(rank) + "}";
  return ticket;
}

SaveControl MakeControl(const Ticket& ticket) {
  return {.deadline_ns = [&ticket] { return ticket.deadline_ns; }, .publish = [] { return true; }};
}

Result<SaveOutcome> Save(const Ticket& ticket, const Memory& memory) {
  std::mutex writing;
  return CarryOut(ticket, memory.span(), writing, MakeControl(ticket));
}

TEST_CASE("ranks together commit what they wrote") {
  const TestingFolder folder;
  const Memory memory(3 * kChunkBytes + 4097, 'x');
  const Ticket first = MakeTicket(folder.path, 0, 2, memory.bytes);
  const Ticket second = MakeTicket(folder.path, 1, 2, memory.bytes);
  Result<SaveOutcome> other;
  std::thread rank([&] { other = Save(second, memory); });
  const Result<SaveOutcome> outcome = Save(first, memory);
  rank.join();
  REQUIRE(outcome);
  REQUIRE(other);
  CHECK(outcome->bytes == 2 * memory.bytes);

  const Result<std::string> manifest = ReadSealed(first.directory + "/MANIFEST.json");
  REQUIRE(manifest);
  CHECK(
      manifest->find(
          R"("objects":{"replicated":{"a":1e+22,"b":2},"global":{},"sharded":{}},"sections":[{"text":7,)") !=
      std::string::npos);
  CHECK(*ReadFile(first.directory + "/RANKS.bin") == R"({"r":0}{"r":1})");
  CHECK(manifest->find(
            R"("parts":[{"file":"d0","offset":0,"length":4,"range":[0,1]},{"file":"d1")") !=
        std::string::npos);
  CHECK(std::filesystem::file_size(first.directory + "/d1") == memory.bytes);
  CHECK(*ReadFile(first.directory + "/d0", 1U << 30U) == std::string(memory.bytes, 'x'));
  CHECK_FALSE(std::filesystem::exists(PartPath(first.directory, 0)));
  CHECK_FALSE(std::filesystem::exists(PartPath(first.directory, 1)));
}

TEST_CASE("a rank that does not come is named") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  Ticket ticket = MakeTicket(folder.path, 0, 3, memory.bytes);
  ticket.deadline_ns = MonotonicNanos();
  const Result<SaveOutcome> outcome = Save(ticket, memory);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message.ends_with("ranks 1, 2 of 3 did not write in time"));
  CHECK(std::filesystem::exists(FailedPath(ticket.directory, 0)));
  CHECK_FALSE(std::filesystem::exists(PartPath(ticket.directory, 0)));
}

TEST_CASE("a folder that is removed under a save ends it") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  for (const auto& [rank, words] :
       {std::pair(0, "part-00000 is gone"), std::pair(1, "was removed while")}) {
    const Ticket ticket = MakeTicket(folder.path, rank, 2, memory.bytes);
    const int64_t begin = MonotonicNanos();
    SaveControl control = MakeControl(ticket);
    control.deadline_ns = [&ticket] {  // asked while it waits for the other rank
      std::filesystem::remove_all(ticket.directory);
      return ticket.deadline_ns;
    };
    std::mutex writing;
    const Result<SaveOutcome> outcome = CarryOut(ticket, memory.span(), writing, control);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().message.find(words) != std::string::npos);
    CHECK(MonotonicNanos() - begin < kPatienceNs / 2);
    CHECK_FALSE(std::filesystem::exists(ticket.directory));  // others look for it, too
  }
}

TEST_CASE("a commit that a later one has replaced already is a commit") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  const Ticket ticket = MakeTicket(folder.path, 1, 2, memory.bytes);
  Ticket later = MakeTicket(folder.path, 0, 1, memory.bytes);
  later.directory += "-2";
  SaveControl control = MakeControl(ticket);
  control.deadline_ns = [&] {  // asked while rank 0 is waited for
    CHECK(Save(later, memory));
    std::filesystem::remove_all(ticket.directory);
    return ticket.deadline_ns;
  };
  std::mutex writing;
  CHECK(CarryOut(ticket, memory.span(), writing, control));
  CHECK_FALSE(std::filesystem::exists(ticket.directory));
}

TEST_CASE("what a saver had committed before it ended is not written again") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  const Ticket first = MakeTicket(folder.path, 0, 1, memory.bytes);
  REQUIRE(Save(first, memory));
  Ticket again = MakeTicket(folder.path, 0, 1, memory.bytes);
  again.file = "d0-1";
  again.text = R"({"other":1})";
  const Result<SaveOutcome> outcome = Save(again, memory);
  REQUIRE(outcome);
  CHECK(outcome->bytes == memory.bytes);
  CHECK(*ReadFile(first.directory + "/RANKS.bin") == first.text);
  CHECK_FALSE(std::filesystem::exists(first.directory + "/d0-1"));
  CHECK_FALSE(std::filesystem::exists(PartPath(first.directory, 0)));
}

TEST_CASE("a rank that failed ends the wait of the others") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  const Ticket ticket = MakeTicket(folder.path, 0, 2, memory.bytes);
  MarkFailed(MakeTicket(folder.path, 1, 2, memory.bytes));
  CHECK(
      Save(ticket, memory).error().message.ends_with("rank 1 could not write; their logs say why"));
}

TEST_CASE("a part of another start is not merged") {
  const Memory memory(10, 'x');
  for (const std::string start : {"00000000", kStart}) {
    const TestingFolder folder;
    Ticket other = MakeTicket(folder.path, 1, 2, memory.bytes);
    other.part_head.replace(other.part_head.find(kStart), start.size(), start);
    REQUIRE(MakeDirs(other.directory));
    REQUIRE(PutFile(PartPath(other.directory, 1), FormatPart(other, {}, true)));
    Ticket ticket = MakeTicket(folder.path, 0, 2, memory.bytes);
    ticket.deadline_ns = MonotonicNanos();
    CHECK(Save(ticket, memory).has_value() == (start == kStart));
  }
}

TEST_CASE("a rank that gave up leaves nothing to commit") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  Ticket second = MakeTicket(folder.path, 1, 2, memory.bytes);
  second.deadline_ns = MonotonicNanos();
  CHECK(Save(second, memory).error().message.find("waited for rank 0") != std::string::npos);
  const Ticket first = MakeTicket(folder.path, 0, 2, memory.bytes);
  CHECK_FALSE(Save(first, memory));
  CHECK_FALSE(*IsCommitted(first.directory));
}

TEST_CASE("ranks that disagree are told so") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  const auto save_both = [&](Ticket second) {
    Ticket first = MakeTicket(folder.path, 0, 2, memory.bytes);
    std::filesystem::remove_all(first.directory);  // with the marks of the try before
    Result<SaveOutcome> other;
    std::thread rank([&] { other = Save(second, memory); });
    const Result<SaveOutcome> outcome = Save(first, memory);
    rank.join();
    CHECK(outcome.has_value() == other.has_value());
    return outcome;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    Ticket ticket = MakeTicket(folder.path, 1, 2, memory.bytes);
    for (std::string* const text : {&ticket.part_tail, &ticket.shared}) {
      if (const size_t at = text->find(from); at != std::string::npos) {
        text->replace(at, from.size(), to);
        return ticket;
      }
    }
    FAIL("nothing to change");
    return ticket;
  };
  CHECK(
      save_both(changed("\"b\":2", "\"b\":3")).error().message.find("different replicated state") !=
      std::string::npos);
  CHECK(save_both(changed("\"shape\":[2]", "\"shape\":[3]"))
            .error()
            .message.ends_with("about w: F32[2] before rank 1, whose is F32[3]"));
  CHECK(save_both(changed("[1,2]", "[0,1]")).error().message.find("elements from 1 of w") !=
        std::string::npos);
  // The order in which a dict was filled does not matter.
  CHECK(save_both(changed("{\"a\":1e+22,\"b\":2}", "{\"b\":2,\"a\":1e+22}")));
}

TEST_CASE("a save that was called off leaves nothing, and touches nothing of the next try") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  const Ticket ticket = MakeTicket(folder.path, 0, 1, memory.bytes);
  std::mutex writing;
  SaveControl control = MakeControl(ticket);
  // Meanwhile the rank has tried again, and has written its part.
  control.publish = [&ticket] {
    REQUIRE(PutFile(PartPath(ticket.directory, 0), "of the second try"));
    return false;
  };
  CHECK_FALSE(CarryOut(ticket, memory.span(), writing, control));
  CHECK_FALSE(std::filesystem::exists(ticket.directory + "/d0"));
  CHECK_FALSE(std::filesystem::exists(FailedPath(ticket.directory, 0)));
  CHECK(*ReadFile(PartPath(ticket.directory, 0)) == "of the second try");
}

TEST_CASE("a folder that cannot be written is named") {
  const TestingFolder folder;
  const Memory memory(10, 'x');
  REQUIRE(PutFile(folder.path + "/file", ""));
  const Ticket ticket = MakeTicket(folder.path + "/file/below", 0, 1, memory.bytes);
  const Result<SaveOutcome> outcome = Save(ticket, memory);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message.find(folder.path + "/file") != std::string::npos);
}

}  // namespace
}  // namespace tide::sdk
