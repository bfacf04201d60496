#include "sdk/native/node_ring.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "common/base/prng.h"
#include "sdk/native/crc32.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/load.h"
#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

constexpr int64_t kLongNs = 60'000'000'000;
constexpr int64_t kShortNs = 20'000'000;

// One file of six chunks.
struct Stored {
  Stored() {
    Prng random(5);
    content.resize(5 * kChunkBytes + 999);
    for (size_t i = 0; i < content.size(); i += sizeof(uint64_t) * 512) {
      content[i] = static_cast<char>(random.Next());
    }
    const std::string path = folder.path + "/d0";
    REQUIRE(PutFile(path, content));
    for (size_t at = 0; at < content.size(); at += kChunkBytes) {
      crcs.push_back(Crc32(0, content.data() + at, std::min(kChunkBytes, content.size() - at)));
    }
    files.push_back({.path = path, .bytes = content.size(), .crc32 = crcs});
  }

  // Loads all of it as this rank. Returns what went wrong.
  [[nodiscard]] std::string Load(uint32_t rank, uint32_t ranks, int64_t patience_ns) const {
    std::string got(content.size(), '\0');
    const std::vector<StoredPiece> pieces = {
        {.file = 0, .offset = 0, .runs = {.bytes = got.size(), .dims = {}}, .to = got.data()}};
    const Status loaded = LoadPiecesTogether(
        {.path = ring(), .ranks = ranks, .rank = rank}, files, pieces, 2, patience_ns);
    if (!loaded) {
      return loaded.error().message;
    }
    return got == content ? "" : "other bytes";
  }

  [[nodiscard]] std::string ring() const { return folder.path + "/ring"; }

  TestingFolder folder;
  std::string content;
  std::vector<uint32_t> crcs;
  std::vector<StoredFile> files;
};

// Bytes that this process has read from files.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  io >> name >> bytes;
  return bytes;
}

// Runs `rank` in a process of its own. What it prints comes out of the pipe.
template <typename Rank>
FILE* Start(const Rank& rank, pid_t& process) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  process = ::fork();
  if (process == 0) {
    const std::string said = rank();
    static_cast<void>(!::write(ends[1], said.data(), said.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  return ::fdopen(ends[0], "r");
}

std::string Finish(FILE* out, pid_t process) {
  std::string text;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) {
    text += static_cast<char>(c);
  }
  std::fclose(out);
  int status = 0;
  ::waitpid(process, &status, 0);
  return text;
}

TEST_CASE("the ranks of a node read a checkpoint once") {
  const Stored stored;
  for (const uint32_t ranks : {1U, 2U, 5U, 9U}) {
    std::vector<std::pair<FILE*, pid_t>> all(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      all[rank].first = Start(
          [&] {
            const uint64_t before = BytesRead();
            const std::string error = stored.Load(rank, ranks, kLongNs);
            return error.empty() ? std::to_string(BytesRead() - before) : error;
          },
          all[rank].second);
    }
    uint64_t bytes = 0;
    for (const auto& [out, process] : all) {
      const std::string said = Finish(out, process);
      INFO(said);
      CHECK(said.find_first_not_of("0123456789") == std::string::npos);
      bytes += std::strtoull(said.c_str(), nullptr, 10);
    }
    // Reads go on to the end of a block; each look at /proc counts, too.
    CHECK(bytes >= stored.content.size());
    CHECK(bytes < stored.content.size() + ranks * size_t{16} * kBlockBytes);
    CHECK_FALSE(std::ifstream(stored.ring()).is_open());
  }
}

TEST_CASE("a rank whose neighbours do not come reads what they would have") {
  const Stored stored;
  CHECK(stored.Load(1, 3, kShortNs).empty());
  CHECK_FALSE(std::ifstream(stored.ring()).is_open());
}

TEST_CASE("a rank that ends in the middle is done without") {
  const Stored stored;
  pid_t process = 0;
  FILE* const out = Start(
      [&]() -> std::string {
        const auto ring = NodeRing::Join({.path = stored.ring(), .ranks = 2, .rank = 1}, 0, 6, 1);
        ::kill(::getpid(), SIGKILL);
        return ring ? "joined" : ring.error().message;
      },
      process);
  Finish(out, process);
  CHECK(stored.Load(0, 2, kShortNs).empty());  // of another load, by its hash
  REQUIRE(::unlink(stored.ring().c_str()) == 0);
  CHECK(stored.Load(0, 2, kShortNs).empty());
}

TEST_CASE("a rank that comes late, or is slow, gets what was saved") {
  const Stored stored;
  std::array<int, 2> go{};
  REQUIRE(::pipe(go.data()) == 0);
  pid_t process = 0;
  FILE* const out = Start(
      [&]() -> std::string {
        char byte = 0;
        static_cast<void>(!::read(go[0], &byte, 1));
        return stored.Load(1, 2, kShortNs);
      },
      process);
  {
    // Holds the ring open while the other comes: it has been given up on by then.
    const auto kept = NodeRing::Join({.path = stored.ring(), .ranks = 2, .rank = 0}, 7, 6, 1);
    REQUIRE(kept);
    REQUIRE(::write(go[1], "x", 1) == 1);
    CHECK(Finish(out, process).empty());
  }
  ::close(go[0]);
  ::close(go[1]);
}

TEST_CASE("what is overwritten while it is copied does not count") {
  const Stored stored;
  const auto ring = NodeRing::Join({.path = stored.ring(), .ranks = 2, .rank = 0}, 7, 100, 1);
  REQUIRE(ring);
  constexpr uint64_t kSlots = 6;  // of two ranks
  const auto write = [&](uint64_t chunk, char byte) {
    char* const memory = (*ring)->Begin(chunk);
    REQUIRE(memory != nullptr);
    memory[0] = byte;
    (*ring)->End(chunk, true);
  };
  write(0, 'a');
  char seen = 0;
  CHECK((*ring)->Take(0, [&](char* data) { seen = data[0]; }));
  CHECK(seen == 'a');
  write(kSlots, 'b');
  CHECK_FALSE((*ring)->Take(0, [](char* /*data*/) {}));  // it is gone
  CHECK_FALSE((*ring)->Take(kSlots, [&](char* /*data*/) { write(2 * kSlots, 'c'); }));
  CHECK((*ring)->Take(2 * kSlots, [&](char* data) { seen = data[0]; }));
  CHECK(seen == 'c');
  REQUIRE((*ring)->Begin(3 * kSlots) != nullptr);
  (*ring)->End(3 * kSlots, false);
  CHECK_FALSE((*ring)->Take(3 * kSlots, [](char* /*data*/) {}));
  CHECK_FALSE((*ring)->Take(1, [](char* /*data*/) {}));  // of the rank that never came
}

TEST_CASE("a slot whose writer has not ended is left alone, however late he is") {
  const Stored stored;
  const auto late = NodeRing::Join({.path = stored.ring(), .ranks = 3, .rank = 2}, 7, 100, 1);
  const auto ring = NodeRing::Join({.path = stored.ring(), .ranks = 3, .rank = 0}, 7, 100, 1);
  REQUIRE((late && ring));
  constexpr uint64_t kSlots = 7;  // of three ranks
  char* const memory = (*late)->Begin(2);
  REQUIRE(memory != nullptr);
  // The other gives it up, and cannot have the slot for a later chunk.
  CHECK_FALSE((*ring)->Take(2, [](char* /*data*/) {}));
  CHECK((*ring)->Begin(2 + kSlots) == nullptr);
  CHECK_FALSE((*ring)->is_closed());
  CHECK_FALSE((*ring)->Take(2 + kSlots, [](char* /*data*/) {}));
  memory[0] = 'x';
  (*late)->End(2, true);
  REQUIRE((*ring)->Begin(2 + 2 * kSlots) != nullptr);
  // Nor does one who is behind write over what is newer.
  CHECK((*late)->Begin(2 + kSlots) == nullptr);
  (*ring)->End(2 + 2 * kSlots, true);
  CHECK((*ring)->Take(2 + 2 * kSlots, [](char* /*data*/) {}));
  (*ring)->Close();
  CHECK((*ring)->Begin(50) == nullptr);
}

// Tells a rank's process that it may go on, over a pipe.
struct Gate {
  Gate() { REQUIRE(::pipe(ends.data()) == 0); }
  ~Gate() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void Open() const { REQUIRE(::write(ends[1], "x", 1) == 1); }
  void Await() const {
    char byte = 0;
    static_cast<void>(!::read(ends[0], &byte, 1));
  }
  std::array<int, 2> ends{};
};

TEST_CASE("a rank that joins when it has been given up gets what was saved, as do the others") {
  const Stored stored;
  const Gate begun;
  const Gate gone_on;
  pid_t first = 0;
  FILE* const out = Start(
      [&]() -> std::string {
        begun.Open();
        std::string error;
        for (int i = 0; i < 5 && error.empty(); ++i) {
          error = stored.Load(0, 2, kShortNs);
          if (i == 0) {
            gone_on.Open();
          }
        }
        return error;
      },
      first);
  begun.Await();
  std::string error = stored.Load(1, 2, kShortNs);
  gone_on.Await();
  for (int i = 0; i < 5 && error.empty(); ++i) {
    error = stored.Load(1, 2, kShortNs);
  }
  CHECK(error.empty());
  CHECK(Finish(out, first).empty());
}

TEST_CASE("all ranks of a node find the same damage") {
  Stored stored;
  stored.crcs[4] ^= 1;
  stored.files[0].crc32 = stored.crcs;
  pid_t process = 0;
  FILE* const out = Start([&] { return stored.Load(1, 2, kLongNs); }, process);
  const std::string first = stored.Load(0, 2, kLongNs);
  const std::string second = Finish(out, process);
  CHECK(first == second);
  CHECK(first.starts_with("d0 chunk 4 (bytes "));
}

TEST_CASE("without room, or with a file in the way, each reads for himself") {
  const Stored stored;
  REQUIRE(PutFile(stored.ring(), "in the way"));
  CHECK(stored.Load(0, 2, kLongNs).empty());
  CHECK(NodeRing::Join({.path = stored.ring(), .ranks = 2, .rank = 0}, 1, 6, 1).error().code ==
        ErrorCode::kConflict);
  CHECK_FALSE(NodeRing::Join({.path = "/no/such/folder/ring", .ranks = 2, .rank = 0}, 1, 6, 1));
}

}  // namespace
}  // namespace tide::sdk
