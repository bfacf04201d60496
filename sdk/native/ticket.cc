#include "sdk/native/ticket.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/base/checkpoint_id.h"

namespace tide::sdk {
namespace {

constexpr std::string_view kVersion = "tide-ticket/2\n";

struct NumberField {
  std::string_view name;
  int64_t Ticket::* member;
};
constexpr std::array<NumberField, 6> kNumbers = {{{"step", &Ticket::step},
                                                  {"attempt", &Ticket::attempt},
                                                  {"rank", &Ticket::rank},
                                                  {"world", &Ticket::world},
                                                  {"keep", &Ticket::keep},
                                                  {"deadline_ns", &Ticket::deadline_ns}}};

struct TextField {
  std::string_view name;
  std::string Ticket::* member;
};
constexpr std::array<TextField, 10> kTexts = {{{"folder", &Ticket::folder},
                                               {"directory", &Ticket::directory},
                                               {"start", &Ticket::start},
                                               {"file", &Ticket::file},
                                               {"part_head", &Ticket::part_head},
                                               {"part_tail", &Ticket::part_tail},
                                               {"shared", &Ticket::shared},
                                               {"text", &Ticket::text},
                                               {"table", &Ticket::table},
                                               {"job", &Ticket::job}}};
constexpr std::string_view kDamaged = "damaged";

std::unexpected<Error> BadField(std::string_view name) {
  return Fail(ErrorCode::kCorrupt, "a save's ticket has a bad field " + std::string(name));
}

Result<int64_t> ParseNumber(std::string_view name, std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return BadField(name);
  }
  return number;
}

Status SetField(Ticket& ticket, std::string_view name, std::string_view value) {
  for (const NumberField& field : kNumbers) {
    if (field.name == name) {
      TIDE_ASSIGN(ticket.*field.member, ParseNumber(name, value));
      return {};
    }
  }
  for (const TextField& field : kTexts) {
    if (field.name == name) {
      ticket.*field.member = value;
      return {};
    }
  }
  if (name != kDamaged) {
    return BadField(name);
  }
  ticket.damaged.emplace_back(value);
  return {};
}

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(" ").append(std::to_string(value.size())).append("\n");
  out.append(value).append("\n");
}

Status Validate(const Ticket& ticket) {
  const bool ranks = ticket.world >= 1 && ticket.rank >= 0 && ticket.rank < ticket.world;
  if (!ranks || ticket.step < 0 || ticket.attempt < 0 || ticket.keep < 1) {
    return BadField("rank, world, step, attempt or keep");
  }
  if (ticket.folder.empty() || !ticket.directory.starts_with(ticket.folder + "/")) {
    return BadField("directory");
  }
  if (!IsStartNonce(ticket.start)) {
    return BadField("start");
  }
  if (ticket.file.empty() || ticket.file.find('/') != std::string::npos) {
    return BadField("file");
  }
  return {};
}

}  // namespace

void DropPart(Ticket& ticket) {
  for (std::string* const text :
       {&ticket.part_head, &ticket.part_tail, &ticket.shared, &ticket.text, &ticket.table}) {
    text->clear();
    text->shrink_to_fit();
  }
}

std::string IdOf(const Ticket& ticket) {
  return ticket.directory.substr(ticket.folder.size() + 1);
}

Result<Ticket> ParseTicket(std::string_view text) {
  if (!text.starts_with(kVersion)) {
    return Fail(ErrorCode::kNewerSchema,
                "a save's ticket has an unknown version; use one SDK only");
  }
  text.remove_prefix(kVersion.size());
  Ticket ticket;
  while (!text.empty()) {
    const size_t line = text.find('\n');
    const std::string_view head = text.substr(0, line);
    const size_t space = head.find(' ');
    if (line == std::string_view::npos || space == std::string_view::npos) {
      return BadField(head.substr(0, 40));
    }
    const std::string_view name = head.substr(0, space);
    TIDE_ASSIGN(const int64_t length, ParseNumber(name, head.substr(space + 1)));
    text.remove_prefix(line + 1);
    if (length < 0 || std::cmp_greater_equal(length, text.size()) ||
        text[static_cast<size_t>(length)] != '\n') {
      return BadField(name);
    }
    TIDE_TRY(SetField(ticket, name, text.substr(0, static_cast<size_t>(length))));
    text.remove_prefix(static_cast<size_t>(length) + 1);
  }
  TIDE_TRY(Validate(ticket));
  return ticket;
}

std::string FormatTicket(const Ticket& ticket) {
  std::string out(kVersion);
  for (const NumberField& field : kNumbers) {
    AppendField(out, field.name, std::to_string(ticket.*field.member));
  }
  for (const TextField& field : kTexts) {
    AppendField(out, field.name, ticket.*field.member);
  }
  for (const std::string& path : ticket.damaged) {
    AppendField(out, kDamaged, path);
  }
  return out;
}

}  // namespace tide::sdk
