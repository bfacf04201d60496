#include "sdk/native/load.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "common/base/prng.h"
#include "sdk/native/crc32.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

struct TwoFiles {
  TwoFiles() {
    Prng random(3);
    for (size_t i = 0; i < 2; ++i) {
      std::string& content = contents[i];
      content.resize(i == 0 ? 2 * kChunkBytes + 12345 : 777);
      for (char& byte : content) {
        byte = static_cast<char>(random.Next());
      }
      const std::string path = folder.path + "/d" + std::to_string(i);
      REQUIRE(PutFile(path, content));
      for (size_t at = 0; at < content.size(); at += kChunkBytes) {
        crcs[i].push_back(
            Crc32(0, content.data() + at, std::min(kChunkBytes, content.size() - at)));
      }
      files.push_back({.path = path, .bytes = content.size(), .crc32 = crcs[i]});
    }
  }

  TestingFolder folder;
  std::string contents[2];
  std::vector<uint32_t> crcs[2];
  std::vector<StoredFile> files;
};

TEST_CASE("pieces arrive whole, across chunks and from every file") {
  TwoFiles two;
  const std::vector<std::pair<uint64_t, uint64_t>> places = {
      {0, 1},
      {5, 0},
      {7, 300'000},
      {300'007, kChunkBytes},
      {kChunkBytes + 300'007, kChunkBytes + 100}};
  std::vector<std::string> got;
  for (const auto& [offset, bytes] : places) {
    got.emplace_back(bytes, '\0');
  }
  got.emplace_back(777, '\0');
  std::vector<StoredPiece> pieces;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint64_t bytes =
        std::min<uint64_t>(places[i].second, two.contents[0].size() - places[i].first);
    got[i].resize(bytes);
    pieces.push_back({.file = 0,
                      .offset = places[i].first,
                      .runs = {.bytes = bytes, .dims = {}},
                      .to = got[i].data()});
  }
  pieces.push_back(
      {.file = 1, .offset = 0, .runs = {.bytes = 777, .dims = {}}, .to = got.back().data()});
  for (const unsigned threads : {1U, 3U}) {
    REQUIRE(LoadPieces(two.files, pieces, threads));
    for (size_t i = 0; i < places.size(); ++i) {
      CHECK(got[i] == two.contents[0].substr(places[i].first, got[i].size()));
    }
    CHECK(got.back() == two.contents[1]);
    for (std::string& text : got) {
      std::fill(text.begin(), text.end(), '\0');
    }
  }
}

TEST_CASE("runs arrive where they belong, across chunks and blocks") {
  TwoFiles two;
  // A box [1000][0:3][5:905) of [1000][7][4000] bytes, to a tensor [3][1000][900].
  const std::vector<RunDim> dims = {{1000, 28'000, 900}, {3, 4000, 900'000}};
  std::string got(2'700'000, '\0');
  const std::vector<StoredPiece> pieces = {
      {.file = 0, .offset = 5, .runs = {.bytes = 900, .dims = dims}, .to = got.data()}};
  REQUIRE(LoadPieces(two.files, pieces, 2));
  std::string expected(got.size(), '\0');
  for (size_t i = 0; i < 1000; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      expected.replace(
          (j * 1000 + i) * 900, 900, two.contents[0].substr(5 + (i * 7 + j) * 4000, 900));
    }
  }
  CHECK(got == expected);
}

TEST_CASE("what is damaged is named") {
  TwoFiles two;
  const auto error = [&] { return LoadPieces(two.files, {}, 2).error(); };
  std::string changed = two.contents[0];
  changed[kChunkBytes + 5] = static_cast<char>(changed[kChunkBytes + 5] ^ 16);
  REQUIRE(PutFile(two.files[0].path, changed));
  CHECK(error().code == ErrorCode::kCorrupt);
  CHECK(error().message.starts_with("d0 chunk 1 (bytes 16777216 to 33554432) does not match"));
  REQUIRE(PutFile(two.files[0].path, "short"));
  CHECK(error().message == "d0 has 5 bytes instead of 33566777");
  REQUIRE(PutFile(two.files[0].path, two.contents[0]));
  two.files[1].path += "-absent";
  CHECK(error().message == "d1-absent is missing");
}

TEST_CASE("a piece outside its file is refused before anything is written") {
  TwoFiles two;
  char byte = 'x';
  const StoredPiece outside{
      .file = 1, .offset = 777, .runs = {.bytes = 1, .dims = {}}, .to = &byte};
  CHECK(LoadPieces(two.files, std::vector{outside}, 1).error().code == ErrorCode::kInvalidArgument);
  CHECK(byte == 'x');
  const std::vector<std::vector<RunDim>> wrong = {{{2, 777, 0}}, {{2, 0, 1}}, {{0, 1, 1}}};
  for (const std::vector<RunDim>& dims : wrong) {
    const StoredPiece piece{
        .file = 1, .offset = 0, .runs = {.bytes = 1, .dims = dims}, .to = &byte};
    CHECK(LoadPieces(two.files, std::vector{piece}, 1).error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(byte == 'x');
}

}  // namespace
}  // namespace tide::sdk
