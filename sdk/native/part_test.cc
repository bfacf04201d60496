#include "sdk/native/part.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "sdk/native/folder.h"
#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

Ticket MakeTicket(const std::string& directory, int64_t rank) {
  Ticket ticket;
  ticket.directory = directory;
  ticket.rank = rank;
  ticket.world = 2;
  ticket.part_head = R"({"format":"tide-checkpoint/2","files":{"d":{"bytes":3,"crc32":)";
  ticket.part_tail = R"(}},"tensors":{},"global":{})";
  ticket.shared = R"({"replicated":{},"sharded":{},"boxes":{}})";
  ticket.text = R"({"file":"d"})";
  ticket.table = std::string(16, '\1');
  return ticket;
}

TEST_CASE("a part comes back as it was written") {
  const Ticket ticket = MakeTicket("dir", 1);
  for (const bool is_here : {true, false}) {
    const Result<Part> part = ParsePart(FormatPart(ticket, {1, 0xABCDEF01}, is_here), "part");
    REQUIRE(part);
    CHECK(part->head.starts_with(ticket.part_head + R"(["00000001","abcdef01"])"));
    CHECK(part->shared.content.has_value() == is_here);
    CHECK(part->shared.content.value_or(ticket.shared) == ticket.shared);
    CHECK(part->shared.bytes == ticket.shared.size());
    CHECK(part->text == ticket.text);
    CHECK(part->table == std::vector<int64_t>(2, 0x0101010101010101));
  }
}

TEST_CASE("a part that is torn, or of which one bit differs, is none") {
  const std::string good = FormatPart(MakeTicket("dir", 1), {1}, true);
  for (size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(ParsePart(good.substr(0, length), "part"));
  }
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(ParsePart(bad, "part"));
  }
}

TEST_CASE("what ranks share is written once") {
  const TestingFolder folder;
  const Ticket first = MakeTicket(folder.path, 0);
  Ticket second = MakeTicket(folder.path, 1);
  CHECK_FALSE(IsOffered(second));
  REQUIRE(OfferShared(second));
  CHECK_FALSE(IsOffered(second));
  REQUIRE(OfferShared(first));
  CHECK(IsOffered(second));
  CHECK_FALSE(IsOffered(first));
  second.shared += " ";
  CHECK_FALSE(IsOffered(second));
  second.shared.resize(3);
  CHECK_FALSE(IsOffered(second));
  WithdrawOffer(first);
  CHECK(std::filesystem::is_empty(folder.path));
}

}  // namespace
}  // namespace tide::sdk
