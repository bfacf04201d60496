#pragma once
// What a rank asks its saver to do with one staged checkpoint. The ticket lies in the staging slot
// behind the data, so that everything is there when the rank is not any more.
//
// Text: `tide-ticket/2`, then fields as `NAME LENGTH`, line feed, LENGTH bytes, line feed.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::sdk {

struct Ticket {
  std::string folder;     // of all checkpoints
  std::string directory;  // this checkpoint's own, inside `folder`
  int64_t step = 0;
  int64_t attempt = 0;
  int64_t rank = 0;
  int64_t world = 1;
  int64_t keep = 1;         // committed checkpoints that stay
  int64_t deadline_ns = 0;  // CLOCK_MONOTONIC; for the other ranks' parts, or rank 0's commit
  std::string start;        // nonce of the start, as in the name of `directory`
  std::string file;         // name of the data file, free when the ticket was written
  // The part's JSON around the CRCs of the data file; without the last brace.
  std::string part_head;
  std::string part_tail;
  std::string shared;  // JSON of the state in which ranks agree
  std::string text;    // this rank's section (sections.h)
  std::string table;
  std::string job;                   // JSON string
  std::vector<std::string> damaged;  // folders of `folder` that were found broken
};

// Forgets the part, which is most of a ticket.
void DropPart(Ticket& ticket);

// The checkpoint's name, as the scheduler has it on record.
[[nodiscard]] std::string IdOf(const Ticket& ticket);

// Errors: kCorrupt naming the field; kNewerSchema for another version.
[[nodiscard]] Result<Ticket> ParseTicket(std::string_view text);
[[nodiscard]] std::string FormatTicket(const Ticket& ticket);

}  // namespace tide::sdk
