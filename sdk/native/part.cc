#include "sdk/native/part.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "common/base/file.h"
#include "sdk/native/crc32.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

namespace tide::sdk {
namespace {

constexpr size_t kMostPartBytes = size_t{4} << 30U;

std::string SharedPath(const Ticket& ticket) {
  return ticket.directory + "/shared.json";
}

std::string Quoted(uint32_t crc) {
  std::array<char, 12> text{};
  std::snprintf(text.data(), text.size(), "\"%08x\"", crc);
  return text.data();
}

std::string CrcList(const std::vector<uint32_t>& crcs) {
  std::string out = "[";
  for (const uint32_t crc : crcs) {
    out.append(out.size() == 1 ? "" : ",").append(Quoted(crc));
  }
  return out + "]";
}

Result<uint64_t> CountAt(std::string_view object, std::string_view key) {
  TIDE_ASSIGN(const std::string_view value, JsonMemberOf(object, key));
  TIDE_ASSIGN(const int64_t number, JsonInteger(value));
  if (number < 0) {
    return Fail(ErrorCode::kCorrupt, "a count is below 0");
  }
  return static_cast<uint64_t>(number);
}

Result<uint32_t> CrcAt(std::string_view object) {
  TIDE_ASSIGN(const std::string_view value, JsonMemberOf(object, "crc32"));
  TIDE_ASSIGN(const std::string text, JsonString(value));
  uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Fail(ErrorCode::kCorrupt, "no CRC-32: " + text.substr(0, 40));
  }
  return crc;
}

std::string_view BytesOf(const std::vector<int64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(int64_t)};
}

}  // namespace

Result<SectionRecord> ParseSectionRecord(std::string_view json) {
  SectionRecord record;
  TIDE_ASSIGN(record.text, CountAt(json, "text"));
  TIDE_ASSIGN(record.table, CountAt(json, "table"));
  if (std::max(record.text, record.table) > kMostPartBytes) {
    return Fail(ErrorCode::kCorrupt, "a section is larger than any part");
  }
  TIDE_ASSIGN(record.crc32, CrcAt(json));
  return record;
}

std::string FormatPart(const Ticket& ticket, const std::vector<uint32_t>& crcs, bool is_here) {
  const SectionRecord section = RecordOf(ticket.text, ticket.table);
  const uint32_t crc = Crc32(0, ticket.shared.data(), ticket.shared.size());
  std::string body = ticket.part_head + CrcList(crcs) + ticket.part_tail;
  body += R"(,"shared":{"bytes":)" + std::to_string(ticket.shared.size()) + R"(,"crc32":)" +
          Quoted(crc) + R"(,"is_here":)" + (is_here ? "true" : "false");
  body += R"(},"section":{"text":)" + std::to_string(section.text) + R"(,"table":)" +
          std::to_string(section.table) + R"(,"crc32":)" + Quoted(section.crc32) + "}";
  std::string part = Seal(std::move(body));
  part.append(is_here ? ticket.shared : std::string()).append(ticket.text).append(ticket.table);
  return part;
}

Result<Part> ParsePart(std::string_view content, const std::string& what) {
  const size_t line = content.find('\n');
  const std::string_view head = content.substr(0, line == std::string_view::npos ? 0 : line + 1);
  TIDE_TRY(CheckSeal(head, what));
  std::string_view rest = content.substr(head.size());
  Part part;
  part.head = head;
  TIDE_ASSIGN(const std::string_view shared, JsonMemberOf(head, "shared"));
  TIDE_ASSIGN(part.shared.bytes, CountAt(shared, "bytes"));
  TIDE_ASSIGN(part.shared.crc32, CrcAt(shared));
  TIDE_ASSIGN(const std::string_view is_here, JsonMemberOf(shared, "is_here"));
  TIDE_ASSIGN(const std::string_view section, JsonMemberOf(head, "section"));
  TIDE_ASSIGN(const SectionRecord record, ParseSectionRecord(section));
  const uint64_t begin = is_here == "true" ? part.shared.bytes : 0;
  if (begin > rest.size() || rest.size() - begin != record.text + record.table) {
    return Fail(ErrorCode::kCorrupt, what + " is cut short");
  }
  if (is_here == "true") {
    part.shared.content = std::string(rest.substr(0, begin));
    rest.remove_prefix(begin);
  }
  part.text = rest.substr(0, record.text);
  const std::string_view table = rest.substr(record.text);
  const bool is_whole =
      RecordOf(part.text, table) == record &&
      (!part.shared.content ||
       Crc32(0, part.shared.content->data(), part.shared.bytes) == part.shared.crc32);
  if (!is_whole) {
    return Fail(ErrorCode::kCorrupt, what + " does not match its CRC-32");
  }
  TIDE_ASSIGN(part.table, WordsOf(table));
  return part;
}

Result<Part> ReadPart(const std::string& directory, int64_t rank) {
  const std::string path = PartPath(directory, rank);
  TIDE_ASSIGN(const std::string content, ReadFile(path, kMostPartBytes));
  return ParsePart(content, path);
}

Status OfferShared(const Ticket& ticket) {
  if (ticket.rank != 0 || ticket.world == 1) {
    return {};
  }
  return ReplaceFile(SharedPath(ticket), ticket.shared, FileRights());
}

bool IsOffered(const Ticket& ticket) {
  if (ticket.rank == 0) {
    return false;
  }
  const Result<std::string> offered = ReadFile(SharedPath(ticket), ticket.shared.size());
  return offered && *offered == ticket.shared;
}

void WithdrawOffer(const Ticket& ticket) {
  ::unlink(SharedPath(ticket).c_str());
}

Status WriteRanksFile(const std::string& directory, const std::vector<Part>& parts) {
  std::vector<std::string_view> halves;
  for (const Part& part : parts) {
    halves.insert(halves.end(), {part.text, BytesOf(part.table)});
  }
  return WriteFileDurably(directory + "/" + std::string(kRanksFile), halves, FileRights());
}

}  // namespace tide::sdk
