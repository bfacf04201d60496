#include "api/gate/body_reader.h"

#include <catch2/catch.hpp>

namespace tide::api {
namespace {

using State = BodyReader::State;

Head Chunked() {
  Head head;
  head.chunked = true;
  return head;
}

TEST_CASE("a body of a stated length is taken, and no more", "[api][gate]") {
  Head head;
  head.content_length = 5;
  BodyReader reader(head, 5);
  CHECK(reader.Take("he") == 2);
  CHECK(reader.state() == State::kMore);
  CHECK(reader.Take("lloGET /") == 3);
  CHECK(reader.state() == State::kWhole);
  CHECK(reader.body() == "hello");
  CHECK(BodyReader(head, 4).state() == State::kTooLong);
  CHECK(BodyReader(Head(), 0).state() == State::kWhole);
}

TEST_CASE("chunks are put together wherever they are split", "[api][gate]") {
  const std::string text = "3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (size_t split = 0; split <= text.size(); ++split) {
    BodyReader reader(Chunked(), 100);
    CHECK(reader.Take(text.substr(0, split)) == split);
    CHECK(reader.Take(text.substr(split) + "GET /") == text.size() - split);
    CHECK(reader.state() == State::kWhole);
    CHECK(reader.body() == "abc0123456789");
  }
}

TEST_CASE("bodies are counted as they come, and what is around their chunks", "[api][gate]") {
  const auto after = [](const std::string& text) {
    BodyReader reader(Chunked(), 16);
    reader.Take(text);
    return reader.state();
  };
  CHECK(after("10\r\n") == State::kMore);
  CHECK(after("11\r\n") == State::kTooLong);
  CHECK(after("fffffffffffffffffffff\r\n") == State::kTooLong);
  CHECK(after("8\r\n12345678\r\n9\r\n") == State::kTooLong);
  CHECK(after("1;" + std::string(20, 'x')) == State::kTooLong);
  CHECK(after("0\r\nA: " + std::string(20, 'x')) == State::kTooLong);
  CHECK(after("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n") == State::kTooLong);
  CHECK(after("000000000000000000000000") == State::kTooLong);
}

TEST_CASE("what is no chunk is refused", "[api][gate]") {
  for (const char* text : {"\r\n",
                           "g\r\n",
                           "-1\r\n",
                           "1\n",
                           "1\ra",
                           "1\r\nab",
                           "1\r\na\rb",
                           "1;\n",
                           "0\r\n\rx",
                           "0\r\nA: b\n"}) {
    BodyReader reader(Chunked(), 100);
    reader.Take(text);
    INFO(text);
    CHECK(reader.state() == State::kBroken);
  }
}

TEST_CASE("who was let in may be given less room than anybody", "[api][gate]") {
  BodyReader reader(Chunked(), 100);
  reader.Take("8\r\n1234");
  reader.Limit(7);
  CHECK(reader.state() == State::kTooLong);
}

}  // namespace
}  // namespace tide::api
