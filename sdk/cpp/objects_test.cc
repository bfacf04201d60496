#include "sdk/cpp/objects.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "sdk/cpp/layout.h"

namespace tide::cpp {
namespace {

template <typename T>
std::string Encoded(T value) {
  return EncodeValue(&value);
}

template <typename T>
T ThroughJson(T value) {
  const Result<Decoded> decoded = DecodeValue(Encoded(value), &value);
  REQUIRE(decoded);
  return std::get<T>(*decoded);
}

TEST_CASE("values look as Python's do") {
  CHECK(Encoded<int64_t>(-7) == "-7");
  CHECK(Encoded(int64_t{1} << 53U) == "9007199254740992");
  CHECK(Encoded((int64_t{1} << 53U) + 1) == R"({"$int":"0x20000000000001"})");
  CHECK(Encoded(std::numeric_limits<int64_t>::min()) == R"({"$int":"-0x8000000000000000"})");
  CHECK(Encoded(1.0) == "1.0");
  CHECK(Encoded(0.1) == "0.1");
  CHECK(Encoded(1e22) == "1e+22");
  CHECK(Encoded(std::numeric_limits<double>::infinity()) == R"({"$float":"7ff0000000000000"})");
  CHECK(Encoded(true) == "true");
  CHECK(Encoded(std::string("a\"\n")) == R"("a\"\n")");
}

TEST_CASE("values come back to the last bit") {
  for (const int64_t value : {int64_t{0},
                              std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max(),
                              -(int64_t{1} << 60U)}) {
    CHECK(ThroughJson(value) == value);
  }
  for (const double value : {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3}) {
    CHECK(ThroughJson(value) == value);
    CHECK(std::signbit(ThroughJson(value)) == std::signbit(value));
  }
  CHECK(std::isnan(ThroughJson(std::nan(""))));
  CHECK(ThroughJson(std::string("\xF0\x9F\x8C\x8A\\")) == "\xF0\x9F\x8C\x8A\\");
}

TEST_CASE("a value of another kind is refused") {
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  std::string text;
  CHECK_FALSE(DecodeValue("1.5", &integer));
  CHECK_FALSE(DecodeValue("null", &integer));
  CHECK_FALSE(DecodeValue(R"({"$int":"0x8000000000000000"})", &integer));
  CHECK_FALSE(DecodeValue("true", &number));
  CHECK_FALSE(DecodeValue("1", &flag));
  CHECK_FALSE(DecodeValue("[]", &text));
  CHECK(std::get<double>(*DecodeValue("7", &number)) == 7);  // Python's integers are numbers
}

TEST_CASE("names that no tree can hold are refused") {
  for (const std::string name : {"", ".", "a.", ".a", "$a", "a.$b"}) {
    CHECK_FALSE(CheckName(name));
  }
  CHECK(CheckName("model.0.weight"));
  const std::map<std::string, int> group = {{"model.w", 0}, {"bare", 0}};
  CHECK_FALSE(CheckFree("model.w", group));
  CHECK_FALSE(CheckFree("model", group));
  CHECK_FALSE(CheckFree("bare.w", group));
  CHECK(CheckFree("model.b", group));
}

TEST_CASE("tensors without memory or size are refused") {
  float one = 0;
  CHECK_FALSE(CheckTensor("w", Tensor::Of<float>(nullptr, {1})));
  CHECK_FALSE(CheckTensor("w", Tensor::Of(&one, {-1})));
  CHECK_FALSE(CheckTensor("w", Tensor::Of(&one, {int64_t{1} << 40U, int64_t{1} << 40U})));
  CHECK(CheckTensor("w", Tensor::Of<float>(nullptr, {0, 3})));
  CHECK(CheckTensor("w", Tensor::Of(&one, {})));
}

TEST_CASE("trees are objects of keys") {
  CHECK(TreesText({}) == "{}");
  CHECK(TreesText({{"b", "1"}, {"a.y", "2"}, {"a.x.z", "3"}, {"c.k", "4"}}) ==
        R"({"a":{"x.z":3,"y":2},"b":1,"c":{"k":4}})");
}

TEST_CASE("ranks' shares meet without a gap") {
  std::vector<double> wide(10);
  std::vector<int8_t> narrow(7);
  const std::map<std::string, Tensor> tensors = {{"a", Tensor::Of(narrow.data(), {7})},
                                                 {"b", Tensor::Of(wide.data(), {2, 5})},
                                                 {"c", Tensor::Of<float>(nullptr, {0})}};
  for (const int64_t world : {1, 2, 3, 5, 100}) {
    std::map<std::string, int64_t> next;
    for (int64_t rank = 0; rank < world; ++rank) {
      for (const auto& [name, range] : ShareOf(tensors, rank, world)) {
        CHECK(range.first == next[name]);
        next[name] = range.last;
      }
    }
    CHECK(next == std::map<std::string, int64_t>{{"a", 7}, {"b", 10}, {"c", 0}});
  }
  CHECK(ShareOf(tensors, 1, 2).size() == 1);
}

TEST_CASE("a data file starts with wide items, on a block") {
  std::vector<double> wide = {1, 2};
  std::vector<int8_t> narrow = {3};
  Objects objects;
  objects.replicated = {{"a", Tensor::Of(narrow.data(), {1})}, {"b", Tensor::Of(wide.data(), {2})}};
  const Layout layout = LayOut(objects, 0, 1);
  CHECK(layout.header.size() % 4096 == 0);
  REQUIRE(layout.entries.size() == 2);
  CHECK(layout.entries[0].name == "replicated/b");
  CHECK(layout.entries[1].offset == layout.header.size() + 16);
  CHECK(layout.bytes == layout.header.size() + 17);
  std::vector<char> file(PaddedBytes(layout), 'x');
  FillFile(layout, file.data());
  CHECK(file[layout.entries[1].offset] == 3);
  CHECK(file.back() == 0);
}

}  // namespace
}  // namespace tide::cpp
