#include "agent/health/kmsg_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "agent/health/sources.h"
#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "tide-kmsg-XXXXXX";
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string Log() const { return path_ + "/log"; }

 private:
  std::string path_;
};

void Append(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::unique_ptr<KmsgReader> Open(const std::string& path, const std::string& position = "") {
  KmsgOptions options;
  options.path = path;
  options.position = position;
  auto reader = KmsgReader::Open(options);
  if (!reader) {
    FAIL(reader.error().message);
  }
  return std::move(*reader);
}

bool Readable(const KmsgReader& reader, int timeout_ms) {
  pollfd waiting{.fd = reader.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

// Everything that is there now.
std::vector<std::string> Texts(KmsgReader& reader) {
  std::vector<KernelLine> lines;
  do {
    REQUIRE(reader.Read(lines));
  } while (Readable(reader, 0));
  std::vector<std::string> texts;
  for (const KernelLine& line : lines) {
    CHECK(line.read_at.is_set());
    texts.push_back(line.text);
  }
  return texts;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the first start begins at the end, then lines come as they are written") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  const auto reader = Open(folder.Log());
  CHECK(Texts(*reader).empty());
  CHECK_FALSE(Readable(*reader, 0));
  Append(folder.Log(), "one\ntwo\n");
  CHECK(Readable(*reader, 5000));
  CHECK(Texts(*reader) == Lines{"one", "two"});
  CHECK_FALSE(Readable(*reader, 0));
}

TEST_CASE("a partial line waits for its rest") {
  const Folder folder;
  Append(folder.Log(), "old\nhalf of ");
  auto reader = Open(folder.Log());
  CHECK(Texts(*reader).empty());
  Append(folder.Log(), "a line");
  CHECK(Texts(*reader).empty());
  SECTION("in one run") {
    Append(folder.Log(), "\n");
    CHECK(Readable(*reader, 5000));
    CHECK(Texts(*reader) == Lines{"half of a line"});
  }
  SECTION("over a restart") {
    reader = Open(folder.Log(), reader->Position());
    CHECK(Texts(*reader).empty());
    Append(folder.Log(), "\n");
    CHECK(Texts(*reader) == Lines{"half of a line"});
  }
}

TEST_CASE("a truncated file is read from its new start") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  auto reader = Open(folder.Log());
  Append(folder.Log(), "one\n");
  CHECK(Texts(*reader) == Lines{"one"});
  std::filesystem::resize_file(folder.Log(), 0);
  CHECK(Texts(*reader).empty());
  Append(folder.Log(), "two\n");
  CHECK(Texts(*reader) == Lines{"two"});

  const std::string position = reader->Position();
  std::filesystem::resize_file(folder.Log(), 0);
  Append(folder.Log(), "three, longer than what was there\n");
  reader = Open(folder.Log(), position);
  CHECK(Texts(*reader) == Lines{"three, longer than what was there"});
  CHECK(reader->gaps() == 1);
}

TEST_CASE("a rotated file is read to its end before the new one") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  auto reader = Open(folder.Log());
  Append(folder.Log(), "one\n");
  std::filesystem::rename(folder.Log(), folder.Log() + ".1");
  Append(folder.Log() + ".1", "two\n");
  std::ofstream(folder.Log()).flush();  // the rotator makes the new file first
  CHECK(Texts(*reader) == Lines{"one", "two"});
  Append(folder.Log() + ".1", "three\nno newline");
  CHECK(Readable(*reader, 5000));
  CHECK(Texts(*reader) == Lines{"three"});
  Append(folder.Log(), "four\n");
  CHECK(Readable(*reader, 5000));
  CHECK(Texts(*reader) == Lines{"no newline", "four"});
  CHECK(reader->gaps() == 0);
}

TEST_CASE("a rotation while the agent was away loses nothing") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  auto reader = Open(folder.Log());
  Append(folder.Log(), "one\n");
  CHECK(Texts(*reader) == Lines{"one"});
  const std::string position = reader->Position();
  reader.reset();
  Append(folder.Log(), "two\n");
  std::filesystem::rename(folder.Log(), folder.Log() + ".1");
  Append(folder.Log(), "three\n");
  reader = Open(folder.Log(), position);
  CHECK(Texts(*reader) == Lines{"two", "three"});
  CHECK(reader->gaps() == 0);
  reader = Open(folder.Log(), reader->Position());
  CHECK(Texts(*reader).empty());
}

TEST_CASE("a restart repeats nothing and skips nothing") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  auto reader = Open(folder.Log());
  Lines all;
  Lines written;
  for (int i = 0; i < 50; ++i) {
    for (int k = 0; k < i % 5; ++k) {
      written.push_back(std::to_string(i) + "." + std::to_string(k));
      Append(folder.Log(), written.back() + "\n");
    }
    std::vector<KernelLine> lines;
    REQUIRE(reader->Read(lines, 2));  // fewer than there are: the rest must come later
    for (const KernelLine& line : lines) {
      all.push_back(line.text);
    }
    reader = Open(folder.Log(), reader->Position());
  }
  const Lines rest = Texts(*reader);
  all.insert(all.end(), rest.begin(), rest.end());
  CHECK(all == written);
  CHECK(reader->gaps() == 0);
}

TEST_CASE("a file that appears later is read from its start") {
  const Folder folder;
  auto reader = Open(folder.Log());
  CHECK(Texts(*reader).empty());
  const std::string position = reader->Position();
  Append(folder.Log(), "one\n");
  CHECK(Readable(*reader, 5000));
  CHECK(Texts(*reader) == Lines{"one"});
  reader = Open(folder.Log(), position);
  CHECK(Texts(*reader) == Lines{"one"});
}

TEST_CASE("a missing folder is an error with a way out") {
  KmsgOptions options;
  options.path = "/nonexistent-folder/log";
  const auto reader = KmsgReader::Open(options);
  REQUIRE_FALSE(reader);
  CHECK(reader.error().code == ErrorCode::kNotFound);
  CHECK(reader.error().message.find("make it first") != std::string::npos);
}

TEST_CASE("long lines are cut, also those longer than any buffer") {
  const Folder folder;
  const auto reader = Open(folder.Log());
  for (const size_t size :
       {kMaxLine, kMaxLine + 1, size_t{65535}, size_t{65536}, size_t{300'000}}) {
    Append(folder.Log(), std::string(size, 'x'));
    CHECK(Texts(*reader).empty());
    Append(folder.Log(), "\nnext\n");
    CHECK(Texts(*reader) == Lines{std::string(kMaxLine, 'x'), "next"});
  }
}

TEST_CASE("a batch is bounded and announces the rest") {
  const Folder folder;
  const auto reader = Open(folder.Log());
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  Append(folder.Log(), text);
  std::vector<KernelLine> lines;
  for (size_t batch = 1; batch <= 10; ++batch) {
    CHECK(Readable(*reader, 5000));
    REQUIRE(reader->Read(lines, 100));
    CHECK(lines.size() == 100 * batch);
  }
  CHECK(lines.back().text == "line 999");
}

TEST_CASE("an unreadable position counts as a first start") {
  const Folder folder;
  Append(folder.Log(), "old\n");
  for (const char* position : {"junk", "file 1 2", "file 1 2 3 x", "kmsg a 1", "file 1 2 3 4 5"}) {
    const auto reader = Open(folder.Log(), position);
    CHECK(Texts(*reader).empty());
  }
}

TEST_CASE("a FIFO is followed over its writers") {
  const Folder folder;
  REQUIRE(::mkfifo(folder.Log().c_str(), 0600) == 0);
  const auto reader = Open(folder.Log());
  CHECK(Texts(*reader).empty());
  Append(folder.Log(), "one\ntw");
  CHECK(Readable(*reader, 5000));
  CHECK(Texts(*reader) == Lines{"one"});
  Append(folder.Log(), "o\n" + std::string(kMaxLine + 10, 'y') + "\n");
  CHECK(Texts(*reader) == Lines{"two", std::string(kMaxLine, 'y')});
  CHECK_FALSE(Readable(*reader, 0));
}

TEST_CASE("a device that says nothing is fine") {
  const auto reader = Open("/dev/null");
  CHECK(Texts(*reader).empty());
  CHECK_FALSE(Readable(*reader, 0));
}

TEST_CASE("records of a device: headers, numbers, escapes, gaps, restarts") {
  // A packet socket behaves as /dev/kmsg does: one record per read, EAGAIN at the end.
  const auto device = [](const Lines& records, const std::string& position) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
    const Fd writer(ends[0]);
    for (const std::string& record : records) {
      REQUIRE(WriteAll(writer.get(), record));
    }
    auto source = OpenKmsgDevice(Fd(ends[1]), position, "boot");
    REQUIRE(source);
    return std::move(*source);
  };
  const auto read = [](LineSource& source) {
    Lines lines;
    while (source.Read(2, lines).value()) {
    }
    return lines;
  };
  const Lines records = {"4,7,100,-;one\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n",
                         "6,8,101,-,caller=T1;two\\x0athree\n",
                         "no record at all",
                         "30,9,102,c;" + std::string(kMaxLine + 5, 'x') + "\n",
                         "4,12,103,-;after a gap; with a semicolon\n"};
  const Lines texts = {
      "one", "two\nthree", std::string(kMaxLine, 'x'), "after a gap; with a semicolon"};

  const auto first_start = device(records, "");
  CHECK(read(*first_start).empty());
  CHECK(first_start->Position() == "kmsg boot 13");
  CHECK(first_start->gaps() == 0);

  const auto other_boot = device(records, "kmsg other 13");
  CHECK(read(*other_boot) == texts);
  CHECK(other_boot->gaps() == 2);  // 0 to 6, 10 and 11

  const auto resumed = device(records, "kmsg boot 8");
  CHECK(read(*resumed) == Lines(texts.begin() + 1, texts.end()));
  CHECK(resumed->gaps() == 1);
  CHECK(resumed->Position() == "kmsg boot 13");

  const auto nothing_new = device(records, "kmsg boot 13");
  CHECK(read(*nothing_new).empty());
  CHECK(nothing_new->Position() == "kmsg boot 13");
}

TEST_CASE("/dev/kmsg: a line written now is found once, also over restarts") {
  const Fd writer(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
  const Fd probe(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!writer.valid() || !probe.valid()) {
    WARN("skipped: /dev/kmsg cannot be read and written here (" << std::strerror(errno) << ")");
    return;
  }
  std::random_device random;
  const std::string marker = "tide-test-" + std::to_string(random()) + std::to_string(random());
  const std::string line = marker + ": \u00e9 kmsg";
  const auto count = [&](KmsgReader& reader) {
    const Lines texts = Texts(reader);
    return std::count(texts.begin(), texts.end(), line);
  };
  auto reader = Open("/dev/kmsg");
  CHECK(count(*reader) == 0);
  const std::string before = reader->Position();
  REQUIRE(WriteAll(writer.get(), line + "\n"));  // no newline: held back for more
  CHECK(Readable(*reader, 5000));
  CHECK(count(*reader) == 1);
  CHECK(count(*reader) == 0);
  const std::string after = reader->Position();
  reader = Open("/dev/kmsg", before);
  CHECK(count(*reader) == 1);
  reader = Open("/dev/kmsg", after);
  CHECK(count(*reader) == 0);
  CHECK(reader->gaps() == 0);

  KmsgOptions other_boot;
  other_boot.position = "kmsg another-boot 999999999999";
  auto reopened = KmsgReader::Open(other_boot);
  REQUIRE(reopened);
  CHECK(count(**reopened) == 1);
}

}  // namespace tide::health
