#include "agent/logs/stack_place.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "agent/logs/log_file.h"

namespace tide::agent {
namespace {

constexpr size_t kPlaceMax = 100;  // bytes

// Takes what stands before `end` off the front, and the end.
std::optional<std::string_view> TakeUntil(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kPlaceMax));
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return out;
}

// From a line `  File "/a/b.py", line 12 in name`, its newline included.
std::optional<std::string> PlaceOf(std::string_view line) {
  std::string_view rest = line;
  const auto before = TakeUntil(rest, "  File \"");
  const auto file = before && before->empty() ? TakeUntil(rest, "\", line ") : std::nullopt;
  const auto number = file ? TakeUntil(rest, " in ") : std::nullopt;
  const auto name = number ? TakeUntil(rest, "\n") : std::nullopt;
  if (!name || name->empty() ||
      !std::ranges::all_of(*number, [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return std::nullopt;
  }
  const std::string_view base = file->substr(file->find_last_of('/') + 1);
  return Printable(*name) + " (" + Printable(base) + ":" + Printable(*number) + ")";
}

}  // namespace

// The thread that takes the signal is the main one. Processes that were forked from the rank may
// write theirs later.
std::optional<std::string> FindStackPlace(std::string_view text) {
  constexpr std::string_view kThread = "Current thread 0x";
  constexpr std::string_view kFirst = "(most recent call first):\n";
  const size_t at = text.find(kThread);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(at);
  const auto head = TakeUntil(rest, kFirst);
  if (!head || head->find('\n') != std::string_view::npos) {
    return std::nullopt;
  }
  return PlaceOf(rest);
}

uint64_t LogLength(const std::string& folder, uint32_t rank) {
  LogFile log(folder, rank);
  return log.Refresh() && log.exists() ? log.End().value_or(0) : 0;
}

std::string StackPlaceFrom(const std::string& folder, uint32_t rank, uint64_t from) {
  constexpr size_t kReadMax = 65536;
  LogFile log(folder, rank);
  if (!log.Refresh() || !log.exists()) {
    return "";
  }
  std::string text(kReadMax, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const auto read = log.Read(from + length, std::span(text).subspan(length));
    if (!read || *read == 0) {
      break;
    }
    length += *read;
  }
  return FindStackPlace(std::string_view(text).substr(0, length)).value_or("");
}

}  // namespace tide::agent
