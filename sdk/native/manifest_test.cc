#include "sdk/native/manifest.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tide::sdk {
namespace {

using Words = std::vector<int64_t>;

// The part of one rank that stores boxes of "w", a tensor of shape [2,4].
Part PartWith(Words table, const std::string& shape = "[2,4]") {
  const std::string shared =
      R"({"replicated":{},"sharded":{"m":1},"boxes":{"w":{"dtype":"F32","shape":)" + shape + "}}}";
  return {.head = R"({"files":{},"tensors":{},"global":{},"section":{"text":2}})",
          .shared = {.bytes = shared.size(), .crc32 = 1, .content = shared},
          .text = "{}",
          .table = std::move(table)};
}

// Leaves out what rank 0 has.
Part Brief(Part part) {
  part.shared.content.reset();
  return part;
}

Words Boxed(int64_t offset, const Words& borders) {
  Words row = {0, offset};
  row.insert(row.end(), borders.begin(), borders.end());
  return row;
}

Words All(const Words& one, const Words& other) {
  Words both = one;
  both.insert(both.end(), other.begin(), other.end());
  return both;
}

Result<std::string> Merge(const std::vector<Part>& parts) {
  Ticket ticket;
  ticket.directory = "dir";
  ticket.world = static_cast<int64_t>(parts.size());
  ticket.job = "\"j\"";
  ticket.start = "d998b860";
  return MergeParts(ticket, parts);
}

std::string MergeError(const std::vector<Part>& parts) {
  const Result<std::string> merged = Merge(parts);
  return merged ? "none" : merged.error().message;
}

TEST_CASE("boxes that fill a tensor are committed, copies of them, too") {
  const Words left = Boxed(0, {0, 2, 0, 1});
  const Words right = Boxed(8, {0, 2, 1, 4});
  const Result<std::string> manifest =
      Merge({PartWith(right), Brief(PartWith(All(left, right))), PartWith(right), PartWith({})});
  REQUIRE(manifest);
  CHECK(manifest->find(R"("tensors":{},"boxes":{"w":{"dtype":"F32","shape":[2,4]}})") !=
        std::string::npos);
  CHECK(manifest->find(R"("objects":{"replicated":{},"global":{},"sharded":{"m":1}})") !=
        std::string::npos);
  CHECK(manifest->find(R"("sections":[{"text":2},{"text":2},{"text":2},{"text":2}])") !=
        std::string::npos);
}

TEST_CASE("a tensor without elements has no boxes, one without dimensions has one") {
  CHECK(Merge({PartWith({}, "[0,4]")}));
  CHECK(Merge({PartWith(Boxed(0, {}), "[]"), PartWith(Boxed(0, {}), "[]")}));
  CHECK(MergeError({PartWith({}, "[]")}).starts_with("dir: no rank stored [] of w"));
}

TEST_CASE("boxes that do not fill a tensor are named") {
  const Part part = PartWith(Boxed(0, {0, 2, 0, 3}));
  CHECK(MergeError({part}) ==
        "dir: no rank stored [0:2, 3:4] of w; the ranks' shards must fill its shape [2,4]");
  CHECK(MergeError({part, PartWith(Boxed(0, {1, 2, 2, 4}))}) ==
        "dir: no rank stored [0:1, 3:4] of w; the ranks' shards must fill its shape [2,4]");
  CHECK(MergeError({part, PartWith(Boxed(0, {0, 2, 2, 4}))}) ==
        "dir: several ranks stored [0:2, 2:3] of w; shards must not overlap, unless they are the "
        "same box");
  CHECK(MergeError({PartWith(Boxed(0, {0, 2, 3, 5}))}) == "a box of w does not fit its shape");
  CHECK(MergeError({PartWith(Boxed(0, {1, 1, 0, 4}))}) == "a box of w does not fit its shape");
  CHECK(MergeError({PartWith({0, 0, 0, 8})}) == "the table of boxes does not fit");
}

TEST_CASE("ranks agree about what they share") {
  const Part part = PartWith(Boxed(0, {0, 2, 0, 4}));
  const auto changed = [&](const std::string& from, const std::string& to) {
    Part other = PartWith({});
    std::string& text = *other.shared.content;
    text.replace(text.find(from), from.size(), to);
    return MergeError({part, other});
  };
  CHECK(changed("\"m\":1", "\"m\":2")
            .starts_with("dir: ranks 0 and 1 have different sharded state; give all ranks"));
  CHECK(changed("\"replicated\":{}", "\"replicated\":{\"a\":1}")
            .starts_with("dir: ranks 0 and 1 have different replicated state; give what differs"));
  CHECK(changed("[2,4]", "[3,4]").ends_with("about w: F32[2,4] before rank 1, whose is F32[3,4]"));
  CHECK(changed("\"w\":{\"dtype\":\"F32\",\"shape\":[2,4]}", "")
            .find("w is a tide.Shard on some ranks and a whole tensor on others") !=
        std::string::npos);
  Part other = Brief(PartWith({}));
  other.shared.crc32 = 2;
  CHECK(MergeError({part, other}).starts_with("dir: ranks 0 and 1 have different state"));
}

}  // namespace
}  // namespace tide::sdk
