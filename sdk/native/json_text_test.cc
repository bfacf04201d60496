#include "sdk/native/json_text.h"

#include <catch2/catch.hpp>

namespace tide::sdk {
namespace {

TEST_CASE("members and elements keep the text they were written as") {
  const auto members = JsonMembers(R"( {"a": 1e+22 ,"b\"}":[1,{"c":"]"}],"d":{}} )");
  REQUIRE(members);
  REQUIRE(members->size() == 3);
  CHECK((*members)[0].key == "\"a\"");
  CHECK((*members)[0].value == "1e+22");
  CHECK((*members)[1].key == "\"b\\\"}\"");
  CHECK((*members)[1].value == R"([1,{"c":"]"}])");
  const auto elements = JsonElements((*members)[1].value);
  REQUIRE(elements);
  REQUIRE(elements->size() == 2);
  CHECK((*elements)[1] == R"({"c":"]"})");
  CHECK(JsonMembers("{}")->empty());
  CHECK(JsonElements("[ ]")->empty());
  CHECK(*JsonMemberOf(R"({"x":true})", "x") == "true");
}

TEST_CASE("malformed JSON is an error, whatever it is") {
  for (const std::string_view text : {"",
                                      "{",
                                      "}",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\":1",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{\"a\":[1}",
                                      "{} {}",
                                      "{\"a\":\"x}",
                                      "[1]"}) {
    INFO(text);
    CHECK_FALSE(JsonMembers(text));
  }
  for (const std::string_view text : {"", "[", "]", "[1", "[1,", "[1,]", "[[1]", "[\"x]", "{}"}) {
    INFO(text);
    CHECK_FALSE(JsonElements(text));
  }
  CHECK_FALSE(JsonMemberOf("{\"a\":1}", "b"));
  CHECK_FALSE(JsonInteger("1.0"));
  CHECK_FALSE(JsonInteger("99999999999999999999"));
  CHECK_FALSE(JsonString("x"));
  CHECK_FALSE(JsonString(R"("\q")"));
  CHECK_FALSE(JsonString(R"("\u12")"));
}

TEST_CASE("strings are quoted as json.dumps does and come back") {
  const std::string text = "a\"\\\n\t\x01 \x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a";
  const std::string quoted = JsonQuote(text);
  CHECK(quoted == R"("a\"\\\n\t\u0001 )"
                  "\x7f"
                  R"( \u00e9 \u20ac \ud83c\udf0a")");
  CHECK(*JsonString(quoted) == text);
  CHECK(JsonQuote("\xff\xc3(\xe2\x82") == R"("\ufffd\ufffd(\ufffd")");
  CHECK(*JsonString(R"("\/\b\f\r")") == "/\b\f\r");
}

}  // namespace
}  // namespace tide::sdk
