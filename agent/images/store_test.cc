#include "agent/images/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "agent/images/images_testing.h"
#include "common/base/file.h"
#include "common/digest/sha256.h"

namespace tide::agent {
namespace {

std::string DigestOf(const std::string& text) {
  return "sha256:" + Sha256Hex(text);
}

// Images of made-up content: the store does not look into it.
struct TestStore {
  ImageDir dir;
  ImageStore store = *ImageStore::Open(dir.File("store"));

  // used_s: when it was used last, in seconds.
  std::string Add(const std::string& name,
                  const std::vector<std::string>& layers,
                  int64_t used_s,
                  size_t kibibytes = 64) {
    StoredImage image{.digest = DigestOf(name), .name = name, .env = {{"A", "b"}}, .blobs = {}};
    for (const std::string& layer : layers) {
      image.blobs.push_back({.digest = DigestOf(layer), .size = layer.size()});
      std::ofstream(dir.File("store/blobs/sha256/" + Sha256Hex(layer))) << layer;
    }
    const std::string staged = *store.Stage();
    REQUIRE(MakeDirs(staged + "/bundle/rootfs", 0755));
    std::ofstream(staged + "/bundle/rootfs/file") << std::string(kibibytes << 10U, 'x');
    REQUIRE(ImageStore::Prepare(staged, image));
    const auto published = store.Publish(staged, image.digest);
    REQUIRE(published);
    CHECK(published->env == image.env);
    CHECK(std::filesystem::exists(published->rootfs + "/file"));
    ImageStore::Discard(staged);
    const timespec when{.tv_sec = used_s, .tv_nsec = 0};
    const std::array<timespec, 2> times{when, when};
    const std::string note = dir.File("store/images/" + DigestHex(image.digest) + "/image.json");
    REQUIRE(::utimensat(AT_FDCWD, note.c_str(), times.data(), 0) == 0);
    return image.digest;
  }
  [[nodiscard]] bool HasBlob(const std::string& layer) const {
    return std::filesystem::exists(dir.File("store/blobs/sha256/" + Sha256Hex(layer)));
  }
  [[nodiscard]] size_t Count() const { return store.List().size(); }
};

TEST_CASE("an image is there once it is published, and after a restart") {
  TestStore world;
  CHECK_FALSE(world.store.Use(DigestOf("a")));
  const std::string digest = world.Add("a", {"l1"}, 100);
  const ImageStore again = *ImageStore::Open(world.dir.File("store"));
  REQUIRE(again.List().size() == 1);
  CHECK(again.List().front().name == "a");
  CHECK(again.List().front().used_at == 100'000'000'000);
  CHECK(again.List().front().unpacked_bytes >= 64U << 10U);
  CHECK(world.store.Use(digest)->digest == digest);
  CHECK(world.store.List().front().used_at > 100'000'000'000);
  struct stat info{};
  REQUIRE(::stat(world.dir.File("store").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0700);
}

TEST_CASE("the longest unused image goes first, one in use never") {
  TestStore world;
  const std::string a = world.Add("a", {"shared", "of a"}, 100);
  const std::string b = world.Add("b", {"shared", "of b"}, 200);
  const std::string c = world.Add("c", {"of c"}, 300);
  CHECK(world.store.Collect(UINT64_MAX, {}).empty());
  CHECK(world.Count() == 3);
  auto aside = world.store.Collect(150U << 10U, {});
  REQUIRE(aside.size() == 1);
  CHECK_FALSE(world.store.Use(a));
  CHECK(std::filesystem::exists(aside.front() + "/rootfs"));
  ImageStore::Discard(aside.front());
  CHECK_FALSE(std::filesystem::exists(aside.front()));
  CHECK(world.HasBlob("shared"));
  CHECK_FALSE(world.HasBlob("of a"));
  aside = world.store.Collect(0, {b});
  CHECK(aside.size() == 1);
  CHECK_FALSE(world.store.Use(c));
  CHECK(world.store.Use(b));
  CHECK(world.HasBlob("of b"));
  CHECK(world.store.Collect(0, {}).size() == 1);
  CHECK(world.Count() == 0);
  CHECK_FALSE(world.HasBlob("shared"));
}

TEST_CASE("blobs of no image go, but for those that are wanted") {
  TestStore world;
  (void)world.Add("a", {"l"}, 100);
  for (const std::string blob : {"half", "left"}) {
    std::ofstream(world.dir.File("store/blobs/sha256/" + DigestHex(DigestOf(blob)))) << blob;
  }
  world.store.RemoveOrphans({{DigestOf("half"), 4}});
  CHECK(world.HasBlob("l"));
  CHECK(world.HasBlob("half"));
  CHECK_FALSE(world.HasBlob("left"));
}

TEST_CASE("what was under way when an agent died is gone at the next start, images are not") {
  TestStore world;
  const std::string digest = world.Add("a", {"l"}, 100);
  (void)world.Add("b", {"l"}, 50);
  const std::string staged = *world.store.Stage();
  std::ofstream(staged + "/oci-put-blob1") << "half";
  REQUIRE(world.store.Collect(100U << 10U, {}).size() == 1);  // and it died before the removal
  ImageStore again = *ImageStore::Open(world.dir.File("store"));
  CHECK_FALSE(std::filesystem::exists(staged));
  CHECK(std::filesystem::is_empty(world.dir.File("store/staging")));
  CHECK(again.Use(digest));
  CHECK(again.List().size() == 1);
}

TEST_CASE("a tag is known as long as its image is here") {
  TestStore world;
  const std::string a = world.Add("a", {"l"}, 100);
  CHECK_FALSE(world.store.Known("train:1"));
  REQUIRE(world.store.Remember({"train:1"}, a));
  CHECK(world.store.Known("train:1") == a);
  ImageStore again = *ImageStore::Open(world.dir.File("store"));
  CHECK(again.Known("train:1") == a);
  REQUIRE(again.Collect(0, {}).size() == 1);
  CHECK_FALSE(again.Known("train:1"));
}

TEST_CASE("notes that cannot be read are no images") {
  TestStore world;
  const std::string a = world.Add("a", {"l"}, 100);
  const std::string note = world.dir.File("store/images/" + DigestHex(a) + "/image.json");
  for (const std::string& text : std::vector<std::string>{
           "", "{", "[]", R"({"digest":1})", R"({"digest":")" + DigestOf("b") + "\"}"}) {
    std::ofstream(note, std::ios::trunc) << text;
    CHECK_FALSE(world.store.Use(a));
    CHECK(world.store.List().empty());
  }
  std::ofstream(world.dir.File("store/names.json"), std::ios::trunc) << R"({"x":1,"y":"../z"})";
  CHECK_FALSE(ImageStore::Open(world.dir.File("store"))->Known("y"));
}

TEST_CASE("progress counts layers that are here and those on their way") {
  TestStore world;
  (void)world.Add("a", {"12345"}, 100);
  const std::string staged = *world.store.Stage();
  std::ofstream(staged + "/oci-put-blob7") << "123";
  const std::vector<Descriptor> blobs{{.digest = DigestOf("12345"), .size = 5},
                                      {.digest = DigestOf("more"), .size = 9}};
  CHECK(world.store.FetchedBytes(blobs, staged) == 8);
}

TEST_CASE("a path that mount options would take apart is refused") {
  const auto store = ImageStore::Open("/tmp/a:b");
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().message, Catch::Contains("no comma, colon or backslash"));
}

}  // namespace
}  // namespace tide::agent
