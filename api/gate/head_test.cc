#include "api/gate/head.h"

#include <catch2/catch.hpp>

namespace tide::api {
namespace {

int Verdict(const std::string& text) {
  const auto head = ParseHead(text);
  return head ? 200 : head.error().status;
}

std::string Get(const std::string& more) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + more + "\r\n";
}

TEST_CASE("a head is read", "[api][gate]") {
  const auto head = ParseHead(
      "POST /v1/a%20b/c?x=1+2&y=%26&x=3&z HTTP/1.1\r\nHost: tide:7070\r\nX-A:  one \r\n"
      "x-a: two\r\nCookie: a=1\r\nCookie: b=2\r\nContent-Length: 12\r\n\r\n");
  REQUIRE(head);
  CHECK(head->method == "POST");
  CHECK(head->path == "/v1/a b/c");
  CHECK(head->query == std::map<std::string, std::string>{{"x", "1 2"}, {"y", "&"}, {"z", ""}});
  CHECK(head->Header("x-a") == "one, two");
  CHECK(head->Header("cookie") == "a=1; b=2");
  CHECK(head->content_length == 12);
  CHECK(head->keeps_alive);
  CHECK_FALSE(head->chunked);
}

TEST_CASE("how long a connection is kept is read from version and options", "[api][gate]") {
  CHECK(ParseHead(Get(""))->keeps_alive);
  CHECK_FALSE(ParseHead(Get("Connection: TE, Close\r\n"))->keeps_alive);
  const auto old = ParseHead("GET / HTTP/1.0\r\n\r\n");
  REQUIRE(old);
  CHECK_FALSE(old->keeps_alive);
  CHECK_FALSE(old->reads_chunks);
}

TEST_CASE("what a proxy might understand in another way is refused", "[api][gate]") {
  CHECK(Verdict(Get("Content-Length: 1\r\nContent-Length: 2\r\n")) == 400);
  CHECK(Verdict(Get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")) == 400);
  CHECK(Verdict(Get("Content-Length: +1\r\n")) == 400);
  CHECK(Verdict(Get("Content-Length: 99999999999999999999999\r\n")) == 400);
  CHECK(Verdict(Get("Transfer-Encoding: gzip, chunked\r\n")) == 501);
  CHECK(Verdict("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
  CHECK(Verdict(Get("Host: b\r\n")) == 400);
  CHECK(Verdict("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(Verdict(Get("X : 1\r\n")) == 400);
  CHECK(Verdict(Get(" folded\r\n")) == 400);
  CHECK(Verdict(Get("X: a\nY: b\r\n")) == 400);
  CHECK(Verdict(Get(std::string("X: a\0b\r\n", 8))) == 400);
  CHECK(Verdict(Get("Expect: cake\r\n")) == 417);
}

TEST_CASE("first lines that are none are refused", "[api][gate]") {
  const auto line = [](const std::string& text) { return Verdict(text + "\r\nHost: a\r\n\r\n"); };
  CHECK(line("GET / HTTP/1.1") == 200);
  CHECK(line("GET /") == 505);
  CHECK(line("GET  / HTTP/1.1") == 400);
  CHECK(line("GET / HTTP/1.1 x") == 400);
  CHECK(line("PRI * HTTP/2.0") == 505);
  CHECK(line("GET http://a/ HTTP/1.1") == 400);
  CHECK(line("G(T / HTTP/1.1") == 400);
  CHECK(line("GET /%zz HTTP/1.1") == 400);
  CHECK(line("GET /%4 HTTP/1.1") == 400);
  CHECK(line("GET /%00 HTTP/1.1") == 400);
  CHECK(line("GET /" + std::string(kTargetMax, 'a') + " HTTP/1.1") == 414);
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += "X-" + std::to_string(i) + ": 1\r\n";
  }
  CHECK(Verdict(Get(many)) == 431);
}

TEST_CASE("the end of a head is found wherever its bytes are split", "[api][gate]") {
  const std::string text = Get("A: b\r\n") + "body";
  const size_t end = text.size() - 4;
  for (size_t split = 0; split < text.size(); ++split) {
    const size_t early = FindHeadEnd(std::string_view(text).substr(0, split), 0);
    CHECK(early == (split < end ? 0 : end));
    if (early == 0) {
      CHECK(FindHeadEnd(text, split) == end);
    }
  }
}

}  // namespace
}  // namespace tide::api
