#include "common/base/utf8.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

TEST_CASE("bytes that are not UTF-8 are found") {
  CHECK_FALSE(FindInvalidUtf8("plain, é, 中, 😀"));
  CHECK(FindInvalidUtf8("ab\xFF") == size_t{2});
  CHECK(FindInvalidUtf8("\xC0\xAF") == size_t{0});          // overlong
  CHECK(FindInvalidUtf8("a\xED\xA0\x80") == size_t{1});     // surrogate
  CHECK(FindInvalidUtf8("\xE4\xB8") == size_t{0});          // cut
  CHECK(FindInvalidUtf8("\xF4\x90\x80\x80") == size_t{0});  // above U+10FFFF
}

TEST_CASE("text of others stays one line and steers no terminal") {
  CHECK(EscapeSteering("plain, é, 中, 😀") == "plain, é, 中, 😀");
  CHECK(EscapeSteering("a\x1b]0;title\a\nb") == "a\\u001B]0;title\\u0007\\u000Ab");
  CHECK(EscapeSteering("\x7f|\xC2\x9B|\u202E|\u2066|\u2028") ==
        "\\u007F|\\u009B|\\u202E|\\u2066|\\u2028");
  CHECK(EscapeSteering("\xff|\xE4\xB8") == "\\uFFFD|\\uFFFD\\uFFFD");
  CHECK(EscapeSteering("").empty());
}

}  // namespace
}  // namespace tide
