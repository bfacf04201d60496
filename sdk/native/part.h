#pragma once
// A rank's part: what it has written of a checkpoint that is not committed yet. The bytes are
// described in sdk/python/tide/checkpoint/format.py.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "sdk/native/sections.h"
#include "sdk/native/ticket.h"

namespace tide::sdk {

// The state in which ranks agree, as a part has it. content: nullopt where it is that of rank 0.
struct SharedState {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  std::optional<std::string> content;
};

struct Part {
  std::string head;  // JSON
  SharedState shared;
  std::string text;            // of the section
  std::vector<int64_t> table;  // of the section
};

// A section's record in the JSON of part or manifest. Errors: kCorrupt.
[[nodiscard]] Result<SectionRecord> ParseSectionRecord(std::string_view json);

// The bytes of a part. crcs: of the data file.   is_here: whether the part holds what ranks share.
[[nodiscard]] std::string FormatPart(const Ticket& ticket,
                                     const std::vector<uint32_t>& crcs,
                                     bool is_here);

// Takes a part apart. Errors: kCorrupt where it is torn or changed; kNewerSchema.
[[nodiscard]] Result<Part> ParsePart(std::string_view content, const std::string& what);

// Reads the part of `rank`. Errors: kNotFound while it is not there; as ParsePart's.
[[nodiscard]] Result<Part> ReadPart(const std::string& directory, int64_t rank);

// Rank 0, before it writes its data: lets the others see what it has, so that they need not write
// the same. Errors: kSystem.
[[nodiscard]] Status OfferShared(const Ticket& ticket);
// Tells whether rank 0 has offered the same bytes. Its own part holds them in any case.
[[nodiscard]] bool IsOffered(const Ticket& ticket);
// Rank 0, once it has all parts.
void WithdrawOffer(const Ticket& ticket);

// Puts RANKS.bin in its place, durably, and with it all that the folder holds. Errors: kSystem.
[[nodiscard]] Status WriteRanksFile(const std::string& directory, const std::vector<Part>& parts);

}  // namespace tide::sdk
