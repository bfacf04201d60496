#include "sdk/native/ticket.h"

#include <catch2/catch.hpp>

namespace tide::sdk {
namespace {

Ticket MakeTicket() {
  Ticket ticket;
  ticket.folder = "/data/run";
  ticket.directory = "/data/run/s000000000007-0001-d998b860";
  ticket.step = 7;
  ticket.attempt = 1;
  ticket.start = "d998b860";
  ticket.rank = 1;
  ticket.world = 2;
  ticket.keep = 3;
  ticket.deadline_ns = 123;
  ticket.file = "d00001.safetensors";
  ticket.part_head = "{\"a\n 9\":";
  ticket.part_tail = "}";
  ticket.shared = "{}";
  ticket.text = "{\"file\":\"d\"}";
  ticket.table = std::string("\0\n\xff", 3);
  ticket.job = "\"j-1\"";
  ticket.damaged = {"/data/run/a\nb", ""};
  return ticket;
}

TEST_CASE("a ticket comes back as it was written") {
  const Ticket ticket = MakeTicket();
  const Result<Ticket> read = ParseTicket(FormatTicket(ticket));
  REQUIRE(read);
  CHECK(FormatTicket(*read) == FormatTicket(ticket));
  CHECK(read->damaged == ticket.damaged);
  CHECK(read->part_head == ticket.part_head);
  CHECK(read->table == ticket.table);
  CHECK(read->deadline_ns == 123);
}

TEST_CASE("a torn or unknown ticket is an error") {
  const std::string text = FormatTicket(MakeTicket());
  for (size_t length = 0; length < text.size(); ++length) {
    const Result<Ticket> read = ParseTicket(text.substr(0, length));
    // Cut between two fields it may still be whole without the last ones.
    CHECK((!read || FormatTicket(*read) != text));
  }
  CHECK(ParseTicket("tide-ticket/1\n").error().code == ErrorCode::kNewerSchema);
  CHECK_FALSE(ParseTicket(text + "unknown 1\nx\n"));
  CHECK_FALSE(ParseTicket(text + "step 99999999999\n1\n"));
  CHECK_FALSE(ParseTicket(text + "step 1\nx\n"));
  CHECK_FALSE(ParseTicket(text + "rank 1\n2\n"));
  CHECK_FALSE(ParseTicket(text + "file 4\n../x\n"));
  CHECK_FALSE(ParseTicket(text + "directory 4\n/etc\n"));
  CHECK_FALSE(ParseTicket(text + "start 8\nd998b86\"\n"));
}

}  // namespace
}  // namespace tide::sdk
