#include "api/gate/head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace tide::api {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr size_t kHeadersMax = 100;

std::unexpected<Refusal> BadHead(std::string detail, int status = 400) {
  return std::unexpected(Refusal{status, "bad_request", std::move(detail)});
}

bool IsTokenCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

bool IsControl(char c) {
  return (c >= 0 && c < ' ') || c == '\x7f';
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Nothing where a '%' is not followed by two hex digits.
std::optional<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) {
      return std::nullopt;
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

// Takes the text up to `mark` off the front, the mark too; all where there is none.
std::string_view Cut(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  const std::string_view front = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + mark.size());
  return front;
}

bool ReadQuery(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    std::string_view pair = Cut(text, "&");
    const auto key = Decode(Cut(pair, "="), true);
    auto value = Decode(pair, true);
    if (!key || !value) {
      return false;
    }
    if (!key->empty()) {
      query.emplace(*key, *std::move(value));
    }
  }
  return true;
}

std::expected<void, Refusal> ReadRequestLine(std::string_view line, Head& head) {
  head.method = Cut(line, " ");
  const std::string_view target = Cut(line, " ");
  if (!IsToken(head.method) || target.empty() || line.find(' ') != std::string_view::npos) {
    return BadHead("the first line must be METHOD PATH HTTP/1.1");
  }
  if (line != "HTTP/1.1" && line != "HTTP/1.0") {
    return BadHead("this server speaks HTTP/1.1", 505);
  }
  head.reads_chunks = line == "HTTP/1.1";
  if (target.size() > kTargetMax) {
    return BadHead("the path and its query may have up to 8 KiB", 414);
  }
  if (!target.starts_with('/')) {
    return BadHead("the path must begin with /");
  }
  std::string_view rest = target.substr(0, target.find('#'));
  const auto path = Decode(Cut(rest, "?"), false);
  if (!path || std::ranges::any_of(*path, IsControl) || !ReadQuery(rest, head.query)) {
    return BadHead(
        "the path or its query holds a % without two hex digits, or a control character");
  }
  head.path = *path;
  return {};
}

std::expected<void, Refusal> ReadHeader(std::string_view line, Head& head) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !IsToken(name)) {
    return BadHead("a line of the head is not NAME: VALUE");
  }
  const std::string_view value = Trimmed(line.substr(colon + 1));
  if (std::ranges::any_of(value, [](char c) { return IsControl(c) && c != '\t'; })) {
    return BadHead("header " + std::string(name) + " holds a control character");
  }
  const auto [at, is_first] = head.headers.emplace(Lower(name), value);
  if (is_first) {
    return {};
  }
  constexpr std::array<std::string_view, 5> kOnce = {
      "host", "content-length", "transfer-encoding", "authorization", "origin"};
  if (std::ranges::find(kOnce, at->first) != kOnce.end()) {
    return BadHead("header " + at->first + " may be there once");
  }
  at->second.append(at->first == "cookie" ? "; " : ", ").append(value);
  return {};
}

// How long the body is. A length and chunks together are how requests are smuggled past a proxy.
std::expected<void, Refusal> ReadFraming(Head& head) {
  const std::string coding = Lower(head.Header("transfer-encoding"));
  const bool has_length = head.headers.contains("content-length");
  if (head.headers.contains("transfer-encoding")) {
    if (coding != "chunked") {
      return BadHead("of transfer encodings only chunked is known here", 501);
    }
    if (has_length || !head.reads_chunks) {
      return BadHead("a chunked body states no length, and is of HTTP/1.1");
    }
    head.chunked = true;
  }
  if (has_length) {
    const std::string text = head.Header("content-length");
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, head.content_length);
    if (error != std::errc() || stop != end) {
      return BadHead("Content-Length is not a number of bytes");
    }
  }
  const std::string expected = Lower(head.Header("expect"));
  if (!expected.empty() && expected != "100-continue") {
    return BadHead("Expect may be 100-continue", 417);
  }
  head.expects_continue = !expected.empty() && head.has_body() && head.reads_chunks;
  return {};
}

bool AsksToClose(const Head& head) {
  const std::string connection = Lower(head.Header("connection"));
  std::string_view options = connection;
  while (!options.empty()) {
    if (Trimmed(Cut(options, ",")) == "close") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string Head::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

size_t FindHeadEnd(std::string_view bytes, size_t searched) {
  const size_t from = searched < kHeadEnd.size() ? 0 : searched - (kHeadEnd.size() - 1);
  const size_t at = bytes.find(kHeadEnd, from);
  return at == std::string_view::npos ? 0 : at + kHeadEnd.size();
}

std::expected<Head, Refusal> ParseHead(std::string_view text) {
  text.remove_suffix(kLineEnd.size());  // the empty line
  Head head;
  if (const auto read = ReadRequestLine(Cut(text, kLineEnd), head); !read) {
    return std::unexpected(read.error());
  }
  for (size_t lines = 0; !text.empty(); ++lines) {
    if (lines == kHeadersMax) {
      return BadHead("a request may have up to 100 headers", 431);
    }
    if (const auto read = ReadHeader(Cut(text, kLineEnd), head); !read) {
      return std::unexpected(read.error());
    }
  }
  if (head.reads_chunks && !head.headers.contains("host")) {
    return BadHead("header Host is missing");
  }
  if (const auto read = ReadFraming(head); !read) {
    return std::unexpected(read.error());
  }
  head.keeps_alive = head.reads_chunks && !AsksToClose(head);
  return head;
}

}  // namespace tide::api
