#include "sdk/native/manifest.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace tide::sdk {
namespace {

// The part of one rank that stores boxes of "w", a tensor of shape [2,4]. pieces: JSON, by commas.
std::string PartWith(const std::string& pieces, const std::string& shape = "[2,4]") {
  return R"({"files":{},"tensors":{"w":{"dtype":"F32","shape":)" + shape + R"(,"parts":[)" +
         pieces + R"(]}},"local":{},"replicated":{},"global":{},"sharded":{"m":1}})";
}

std::string Boxed(const std::string& file, const std::string& box) {
  return R"({"file":")" + file + R"(","box":)" + box + "}";
}

Result<std::string> Merge(const std::vector<std::string>& parts) {
  Ticket ticket;
  ticket.directory = "dir";
  ticket.world = static_cast<int64_t>(parts.size());
  ticket.job = "\"j\"";
  ticket.start = "d998b860";
  return MergeParts(ticket, parts);
}

std::string MergeError(const std::vector<std::string>& parts) {
  const Result<std::string> merged = Merge(parts);
  return merged ? "none" : merged.error().message;
}

TEST_CASE("boxes are sorted, and of copies the lowest rank's counts") {
  const std::string left = "[[0,2],[0,1]]";
  const std::string right = "[[0,2],[1,4]]";
  const Result<std::string> manifest = Merge({PartWith(Boxed("a", right)),
                                              PartWith(Boxed("b", left)),
                                              PartWith(Boxed("c", right)),
                                              PartWith("")});
  REQUIRE(manifest);
  CHECK(manifest->find("\"parts\":[" + Boxed("b", left) + "," + Boxed("a", right) + "]") !=
        std::string::npos);
  CHECK(manifest->find(R"("objects":{"replicated":{},"global":{},"sharded":{"m":1}})") !=
        std::string::npos);
}

TEST_CASE("a tensor without elements has no boxes, one without dimensions has one") {
  CHECK(Merge({PartWith("", "[0,4]")}));
  CHECK(Merge({PartWith(Boxed("a", "[]"), "[]"), PartWith(Boxed("b", "[]"), "[]")}));
  CHECK(MergeError({PartWith("", "[]")}).starts_with("dir: no rank stored [] of w"));
}

TEST_CASE("boxes that do not fill a tensor are named") {
  const std::string part = PartWith(Boxed("a", "[[0,2],[0,3]]"));
  CHECK(MergeError({part}) ==
        "dir: no rank stored [0:2, 3:4] of w; the ranks' shards must fill its shape [2,4]");
  CHECK(MergeError({part, PartWith(Boxed("b", "[[1,2],[2,4]]"))}) ==
        "dir: no rank stored [0:1, 3:4] of w; the ranks' shards must fill its shape [2,4]");
  CHECK(MergeError({part, PartWith(Boxed("b", "[[0,2],[2,4]]"))}) ==
        "dir: several ranks stored [0:2, 2:3] of w; shards must not overlap, unless they are the "
        "same box");
  CHECK(MergeError({part, PartWith(Boxed("b", "[[0,3],[0,3]]"), "[3,4]")})
            .ends_with("about w: F32[2,4] before rank 1, whose is F32[3,4]"));
  CHECK(MergeError({part, PartWith(R"({"file":"b","range":[0,8]})")})
            .find("a tide.Shard on some ranks and a whole tensor on others") != std::string::npos);
  CHECK(MergeError({PartWith(Boxed("a", "[[0,8]]"))}) == "a box of w does not fit its shape");
  CHECK(MergeError({PartWith(Boxed("a", "[[0,2],[0]]"))}) == "a range has not two borders");
}

TEST_CASE("sharded objects are the same on all ranks") {
  std::string other = PartWith("");
  other.replace(other.find("\"m\":1"), 5, "\"m\":2");
  CHECK(MergeError({PartWith(Boxed("a", "[[0,2],[0,4]]")), other})
            .starts_with("dir: ranks 0 and 1 have different sharded state; give all ranks"));
}

}  // namespace
}  // namespace tide::sdk
