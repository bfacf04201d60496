// Real skopeo, umoci and layouts; no registry but one that does not answer.

#include "agent/images/fetcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>

#include "agent/images/images_testing.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr int64_t kTestNanos = 60'000'000'000;

struct Fetched {
  Mutex mutex;
  Condition changed;
  std::optional<Result<Image>> image TIDE_GUARDED_BY(mutex);

  ImageFetcher::Done Take() {
    return [this](Result<Image> result) {
      const MutexLock lock(mutex);
      image = std::move(result);
      changed.NotifyAll();
    };
  }
  Result<Image> Wait() {
    const int64_t until = MonotonicNanos() + kTestNanos;
    const MutexLock lock(mutex);
    while (!image) {
      REQUIRE(MonotonicNanos() < until);
      changed.WaitFor(mutex, 1'000'000'000);
    }
    return *image;
  }
};

struct FetchTest {
  ImageDir dir;
  ImageOptions options;
  std::unique_ptr<ImageFetcher> fetcher;

  FetchTest() {
    options.folder = dir.File("store");
    options.patience = Duration();
    options.rules.roots = {"/tmp"};
  }
  void Open() {
    auto opened = ImageFetcher::Open(options);
    REQUIRE(opened);
    fetcher = std::move(*opened);
  }
  Result<Image> Fetch(const std::string& image, const std::string& key = "7.1.0") {
    if (!fetcher) {
      Open();
    }
    Fetched fetched;
    fetcher->Fetch(key, image, kAnybody, fetched.Take());
    return fetched.Wait();
  }
  // Bytes of files, as of a layout's blobs.
  [[nodiscard]] static uint64_t BytesIn(const std::string& folder) {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      bytes += entry.file_size();
    }
    return bytes;
  }
  [[nodiscard]] static uint64_t BlobBytes(const std::string& layout) {
    return BytesIn(layout + "/blobs/sha256");
  }
  [[nodiscard]] uint64_t StoredBlobBytes() const { return BlobBytes(dir.File("store")); }
  [[nodiscard]] std::string Blob(const std::string& layout, size_t layer) const {
    const auto index = ReadFile(dir.File(layout + "/index.json"));
    const std::string manifest =
        *ReadBlob(dir.File(layout), ParseManifest(*index)->manifests.front().digest);
    return dir.File(layout + "/blobs/sha256/" +
                    DigestHex(ParseManifest(manifest)->layers.at(layer).digest));
  }
};

bool Skip() {
  if (const std::string why = WhyNoImageTests(); !why.empty()) {
    WARN("skipped: " << why);
    return true;
  }
  return false;
}

TEST_CASE("an image of a layout is fetched once, unpacked and shared") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true", "/etc/hostname"});
  const auto first = world.Fetch("oci:" + layout + ":base");
  INFO((first ? "" : first.error().message));
  REQUIRE(first);
  CHECK(std::filesystem::exists(first->rootfs + "/bin/true"));
  CHECK(first->env.at("FROM_IMAGE") == "yes");
  CHECK(first->env.at("PATH") == "/opt/here:/usr/bin:/bin");
  const auto unpacked = std::filesystem::last_write_time(first->rootfs);
  for (const std::string& again :
       {"oci:" + layout, "oci:" + layout + ":base", "oci:" + layout + "@" + first->digest}) {
    const auto second = world.Fetch(again, "8.1.0");
    REQUIRE(second);
    CHECK(second->digest == first->digest);
    CHECK(std::filesystem::last_write_time(second->rootfs) == unpacked);
  }
  // By digest it is found even when its source is gone.
  std::filesystem::remove_all(layout);
  CHECK(world.Fetch("oci:" + layout + "@" + first->digest));
  CHECK_FALSE(world.Fetch("oci:" + layout));
  CHECK(std::filesystem::is_empty(world.dir.File("store/staging")));
}

TEST_CASE("what a task waits for is fetched before what is fetched ahead of jobs") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  Mutex mutex;
  Condition changed;
  bool open = false;
  world.options.in_use = [&] {  // asked at the end of a fetch, which has its turn until then
    const MutexLock lock(mutex);
    while (!open) {
      changed.WaitFor(mutex, -1);
    }
    return ImagesOfTasks();
  };
  world.Open();
  size_t fetched = 0;
  const auto fetch = [&](const std::string& name, FetchUrgency urgency) {
    const std::string layout = world.dir.MakeLayout(name, "base", {"/etc/hostname"});
    world.dir.Umoci({"config", "--image", layout + ":base", "--config.env", "NAME=" + name});
    for (const auto& entry : std::filesystem::recursive_directory_iterator(layout)) {
      std::filesystem::permissions(entry.path(), std::filesystem::perms(0755));
    }
    const auto done = [&](const Result<Image>& image) {
      const MutexLock lock(mutex);
      fetched += image ? 1 : 0;
    };
    world.fetcher->Fetch(name, "oci:" + layout, kAnybody, done, urgency);
  };
  const auto waits = [&](const std::string& name, const std::string& word) {
    const int64_t until = MonotonicNanos() + kTestNanos;
    while (world.fetcher->Progress(name).find(word) == std::string::npos) {
      REQUIRE(MonotonicNanos() < until);
      ::poll(nullptr, 0, 1);
    }
  };
  fetch("first", FetchUrgency::kForTask);
  waits("first", "unpacking");
  fetch("ahead", FetchUrgency::kAhead);
  waits("ahead", "waiting");
  fetch("task", FetchUrgency::kForTask);
  waits("task", "waiting");
  {
    const MutexLock lock(mutex);
    open = true;
    changed.NotifyAll();
  }
  const int64_t until = MonotonicNanos() + kTestNanos;
  const auto all = [&] {
    const MutexLock lock(mutex);
    return fetched == 3;
  };
  while (!all()) {
    REQUIRE(MonotonicNanos() < until);
    ::poll(nullptr, 0, 1);
  }
  std::vector<std::string> latest_first;
  for (const ListedImage& image : world.fetcher->List()) {
    latest_first.push_back(std::filesystem::path(image.names.at(0)).filename());
  }
  CHECK(latest_first == std::vector<std::string>{"ahead", "task", "first"});
}

TEST_CASE("what was fetched for somebody who went away is not kept for him") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  world.options.in_use = [] { return ImagesOfTasks(); };
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true"});
  const std::string other = world.dir.MakeLayout("other", "base", {"/bin/false"});
  world.Open();
  const auto never = [](const Result<Image>&) {};
  for (int round = 0; round < 60; ++round) {
    world.fetcher->Fetch("gone", "oci:" + layout, kAnybody, never);
    ::poll(nullptr, 0, round % 30);
    world.fetcher->Cancel("gone");
    REQUIRE(world.Fetch("oci:" + other, "next"));  // has its turn when that one is through
    world.fetcher->Settle("next");
    for (const ListedImage& image : world.fetcher->List()) {
      CHECK_FALSE(image.in_use);
    }
    std::filesystem::remove_all(world.dir.File("store/images"));
    std::filesystem::create_directory(world.dir.File("store/images"));
  }
}

TEST_CASE("names of images are told when they change") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true"});
  world.Open();
  const auto first = world.fetcher->NamesSince(0);
  REQUIRE(first);
  CHECK(first->names.empty());
  CHECK_FALSE(world.fetcher->NamesSince(first->version));
  REQUIRE(world.Fetch("oci:" + layout + ":base"));
  const auto second = world.fetcher->NamesSince(first->version);
  REQUIRE(second);
  CHECK(second->names == std::vector<std::string>{"oci:" + layout + ":base"});
  REQUIRE(world.Fetch("oci:" + layout + ":base", "8.1.0"));  // used again
  CHECK_FALSE(world.fetcher->NamesSince(second->version));
  REQUIRE(world.Fetch("oci:" + layout, "9.1.0"));
  CHECK(world.fetcher->NamesSince(second->version)->names.size() == 2);

  // An agent after this one tells them, too; and what was collected no more.
  world.options.in_use = [] { return ImagesOfTasks(); };
  world.options.bytes_max = 1;
  world.Open();
  CHECK(world.fetcher->NamesSince(0)->names.size() == 2);
  const std::string other = world.dir.MakeLayout("other", "base", {"/bin/false"});
  REQUIRE(world.Fetch("oci:" + other));
  CHECK(world.fetcher->NamesSince(0)->names == std::vector<std::string>{"oci:" + other});
}

TEST_CASE("what is wrong with an image is said in one line") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true"});
  const std::string none = "sha256:" + std::string(64, 'a');
  std::filesystem::copy(layout, world.dir.File("broken"), std::filesystem::copy_options::recursive);
  {
    std::fstream layer(world.Blob("broken", 0));
    layer.seekp(30);
    layer << "xxxx";
  }
  std::filesystem::copy(layout, world.dir.File("gone"), std::filesystem::copy_options::recursive);
  std::filesystem::remove(world.Blob("gone", 0));
  for (const std::string name : {"fifo", "linked", "cut"}) {
    std::filesystem::copy(layout, world.dir.File(name), std::filesystem::copy_options::recursive);
  }
  std::filesystem::remove(world.Blob("fifo", 0));
  REQUIRE(::mkfifo(world.Blob("fifo", 0).c_str(), 0644) == 0);
  std::filesystem::remove(world.Blob("linked", 0));
  std::filesystem::create_symlink("/dev/zero", world.Blob("linked", 0));
  std::filesystem::resize_file(world.Blob("cut", 0), 20);
  std::filesystem::copy(layout, world.dir.File("bent"), std::filesystem::copy_options::recursive);
  std::ofstream(world.dir.File("bent/index.json"), std::ios::trunc) << "{}";
  std::filesystem::copy(layout, world.dir.File("shut"), std::filesystem::copy_options::recursive);
  std::filesystem::permissions(world.dir.File("shut"), std::filesystem::perms(0700));
  std::filesystem::create_directory(world.dir.File("pipe"));
  REQUIRE(::mkfifo(world.dir.File("pipe/index.json").c_str(), 0644) == 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"oci:" + layout + "@" + none, "no manifest " + none + " in the layout; there is sha256:"},
      {"oci:" + layout + ":other", "no tag \"other\" in the layout; there is base"},
      {"oci:/no/such", "/no/such cannot be used by"},
      {"oci:" + world.dir.File("broken"), "a layer is broken: it is not what its digest says"},
      {"oci:" + world.dir.File("gone"), "No such file or directory"},
      {"oci:" + world.dir.File("fifo"), "is no file"},
      {"oci:" + world.dir.File("linked"), "cannot open"},
      {"oci:" + world.dir.File("cut"), "its manifest says"},
      {"oci:" + world.dir.File("bent"), "the image's manifest is not understood"},
      {"oci:" + world.dir.File("shut"), "Permission denied"},
      {"oci:" + world.dir.File("pipe"), "is no file"},
      {"127.0.0.1:1/train:24.10", "the registry does not answer"},
      {"Not/An Image", "this is no name of an image"},
  };
  for (const auto& [image, says] : cases) {
    INFO(image);
    const auto fetched = world.Fetch(image);
    REQUIRE_FALSE(fetched);
    CHECK_THAT(fetched.error().message, StartsWith("image "));
    CHECK_THAT(fetched.error().message, Contains(says));
    CHECK(fetched.error().code == ErrorCode::kInvalidArgument);
    CHECK(fetched.error().message.find('\n') == std::string::npos);
  }
  CHECK(std::filesystem::is_empty(world.dir.File("store/staging")));
  CHECK(std::filesystem::is_empty(world.dir.File("store/images")));
}

TEST_CASE("a registry that does not answer is asked again, until the image is not wanted") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  world.options.patience = Duration::Minutes(60);
  world.Open();
  world.fetcher->Fetch("7.1.0", "127.0.0.1:1/train:24.10", kAnybody, [](const Result<Image>&) {
    FAIL("called off");
  });
  const int64_t until = MonotonicNanos() + kTestNanos;
  while (world.fetcher->Progress("7.1.0").find("; trying again") == std::string::npos) {
    REQUIRE(MonotonicNanos() < until);
    ::poll(nullptr, 0, 2);
  }
  CHECK_THAT(world.fetcher->Progress("7.1.0"), Contains("the registry does not answer"));
  world.fetcher->Cancel("7.1.0");
  CHECK(world.fetcher->Progress("7.1.0").empty());
  // The key is free, and its thread ends with the fetcher.
  CHECK_FALSE(world.Fetch("oci:/no/such"));
}

TEST_CASE("an image that nobody has is removed for one that needs its room") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  ImagesOfTasks in_use;
  world.options.in_use = [&] { return std::optional(in_use); };
  world.options.bytes_max = 1;  // what is fetched last stays: its task starts now
  const std::string one = world.dir.MakeLayout("one", "x", {"/bin/true"});
  const std::string two = world.dir.MakeLayout("two", "x", {"/bin/false"});
  const std::string three = world.dir.MakeLayout("three", "x", {"/bin/echo"});
  const auto first = world.Fetch("oci:" + one, "1.1.0");
  REQUIRE(first);
  const auto second = world.Fetch("oci:" + two, "2.1.0");
  REQUIRE(second);
  CHECK(std::filesystem::exists(first->rootfs));  // its task has not started yet
  in_use[second->digest] = {kAnybody.uid};
  world.fetcher->Settle("1.1.0");
  world.fetcher->Settle("2.1.0");
  REQUIRE(world.Fetch("oci:" + three, "3.1.0"));
  CHECK_FALSE(std::filesystem::exists(first->rootfs));
  CHECK(std::filesystem::exists(second->rootfs));
}

TEST_CASE("tasks of one user have images of so much and no more") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  ImagesOfTasks in_use;
  const std::string freed = world.dir.File("freed");
  world.options.in_use = [&] {
    std::filesystem::remove(freed);  // by somebody else, while the image is fetched
    return std::optional(in_use);
  };
  world.options.node = "n1";
  const std::string one = world.dir.MakeLayout("one", "x", {"/bin/true"});
  const std::string two = world.dir.MakeLayout("two", "x", {"/bin/false"});
  const auto first = world.Fetch("oci:" + one, "1.1.0");
  REQUIRE(first);
  // So much is left that the layers fit, and what they unpack to does not.
  const uint64_t unpacked = world.fetcher->List().front().bytes;
  world.options.user_bytes_max = world.BlobBytes(one) + world.BlobBytes(two) + 2 * unpacked - 8192;
  in_use[first->digest] = {kAnybody.uid};
  const uint64_t before = world.StoredBlobBytes();
  world.Open();
  REQUIRE(WriteFileDurably(freed, std::string(64U << 20U, 'x')));
  const auto second = world.Fetch("oci:" + two, "2.1.0");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kExhausted);
  CHECK_THAT(second.error().message, Contains("on n1 (tide-agent --user-image-bytes)"));
  CHECK(std::filesystem::is_empty(world.dir.File("store/staging")));
  CHECK(world.StoredBlobBytes() == before);
  // Ahead of jobs it is fetched; that it is here then makes no difference.
  Fetched early;
  world.fetcher->Fetch("early", "oci:" + two, kAnybody, early.Take(), FetchUrgency::kAhead);
  CHECK(early.Wait());
  world.fetcher->Settle("early");
  const auto third = world.Fetch("oci:" + two, "2.1.0");
  REQUIRE_FALSE(third);
  CHECK(third.error().code == ErrorCode::kExhausted);
  CHECK_THAT(third.error().message, Contains("theirs have 0."));
  // For another user, and when the first is gone, it is.
  in_use[first->digest] = {kAnybody.uid + 1};
  CHECK(world.Fetch("oci:" + two, "3.1.0"));
  // Not even begun where the layers alone are too much.
  world.options.user_bytes_max = 1;
  world.Open();
  const std::string three = world.dir.MakeLayout("three", "x", {"/bin/echo"});
  in_use.clear();
  const auto fourth = world.Fetch("oci:" + three, "4.1.0");
  REQUIRE_FALSE(fourth);
  CHECK(fourth.error().code == ErrorCode::kExhausted);
}

TEST_CASE("a user's requests at once have no more than one after the other") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  const auto nothing = [] { return std::optional(ImagesOfTasks()); };
  world.options.in_use = nothing;
  const std::string one = world.dir.MakeLayout("one", "x", {"/bin/true"});
  const std::string two = world.dir.MakeLayout("two", "x", {"/bin/false"});
  const std::string three = world.dir.MakeLayout("three", "x", {"/bin/echo"});
  world.Open();
  for (const std::string& layout : {one, two}) {
    Fetched early;
    world.fetcher->Fetch("early", "oci:" + layout, kAnybody, early.Take(), FetchUrgency::kAhead);
    REQUIRE(early.Wait());
    world.fetcher->Settle("early");
  }
  // One of them fits, and not two, whichever.
  const uint64_t unpacked = world.fetcher->List().front().bytes;
  world.options.user_bytes_max = world.BlobBytes(one) + unpacked * 3 / 2;
  world.Open();
  for (int i = 0; i < 20; ++i) {
    Fetched first;
    Fetched second;
    world.fetcher->Fetch("1.1.0", "oci:" + one, kAnybody, first.Take());
    world.fetcher->Fetch("2.1.0", "oci:" + two, kAnybody, second.Take());
    CHECK(first.Wait().has_value() != second.Wait().has_value());
    world.fetcher->Settle("1.1.0");
    world.fetcher->Settle("2.1.0");
  }
  // While one is fetched, another that is here is taken: the first is too much then.
  std::atomic<bool> asked = false;
  Fetched stored;
  world.options.in_use = [&] {
    if (!asked.exchange(true)) {
      world.fetcher->Fetch("2.1.0", "oci:" + two, kAnybody, stored.Take());
      CHECK(stored.Wait());
    }
    return nothing();
  };
  world.Open();
  const auto late = world.Fetch("oci:" + three, "1.1.0");
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::kExhausted);
}

TEST_CASE("what cannot be read of tasks is the node's fault") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  world.options.in_use = [] { return std::optional<ImagesOfTasks>(); };
  world.options.user_bytes_max = 1U << 30U;
  const auto fetched = world.Fetch("oci:" + world.dir.MakeLayout("one", "x", {"/bin/true"}));
  REQUIRE_FALSE(fetched);
  CHECK(fetched.error().code == ErrorCode::kUnavailable);
}

// A small file system for a store.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path, const char* size) : path_(std::move(path)) {
    REQUIRE(MakeDirs(path_, 0755));
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      ::umount2(path_.c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  const std::string path_;
  bool mounted_ = false;
};

TEST_CASE("a full disk is the node's fault, and images that nobody has make room first") {
  if (Skip()) {
    return;
  }
  FetchTest world;
  const SmallDisk disk(world.dir.File("disk"), "size=12m");
  if (!disk.mounted()) {
    WARN("skipped: no file system can be mounted here");
    return;
  }
  world.options.folder = world.dir.File("disk/store");
  world.options.in_use = [] { return ImagesOfTasks(); };
  const auto random = [&](const std::string& name, size_t mebibytes) {
    std::ofstream out(world.dir.File(name));
    out << std::ifstream("/dev/urandom").rdbuf()->sgetc();  // tells the layers apart
    std::string block(1U << 20U, '\0');
    std::ifstream source("/dev/urandom");
    for (size_t i = 0; i < mebibytes; ++i) {
      source.read(block.data(), static_cast<std::streamsize>(block.size()));
      out << block;
    }
    out.close();
    return world.dir.MakeLayout(name + "-layout", "x", {world.dir.File(name)});
  };
  const auto fits = world.Fetch("oci:" + random("four", 4), "1.1.0");
  INFO((fits ? "" : fits.error().message));
  REQUIRE(fits);
  const std::string five = random("five", 5);
  const auto full = world.Fetch("oci:" + five, "2.1.0");
  REQUIRE_FALSE(full);
  CHECK(full.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(full.error().message, Contains("the disk of this node's image store is full"));
  CHECK(std::filesystem::exists(fits->rootfs));
  world.fetcher->Settle("1.1.0");
  const auto room = world.Fetch("oci:" + five, "2.1.0");
  INFO((room ? "" : room.error().message));
  CHECK(room);
  CHECK_FALSE(std::filesystem::exists(fits->rootfs));
}

}  // namespace
}  // namespace tide::agent
