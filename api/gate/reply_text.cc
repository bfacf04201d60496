#include "api/gate/reply_text.h"

#include <array>
#include <charconv>

namespace tide::api {
namespace {

std::string_view Phrase(int status) {
  struct Named {
    int status;
    std::string_view phrase;
  };
  static constexpr std::array<Named, 26> kPhrases = {{{200, "OK"},
                                                      {201, "Created"},
                                                      {202, "Accepted"},
                                                      {204, "No Content"},
                                                      {206, "Partial Content"},
                                                      {304, "Not Modified"},
                                                      {400, "Bad Request"},
                                                      {401, "Unauthorized"},
                                                      {403, "Forbidden"},
                                                      {404, "Not Found"},
                                                      {405, "Method Not Allowed"},
                                                      {408, "Request Timeout"},
                                                      {409, "Conflict"},
                                                      {410, "Gone"},
                                                      {413, "Content Too Large"},
                                                      {414, "URI Too Long"},
                                                      {415, "Unsupported Media Type"},
                                                      {417, "Expectation Failed"},
                                                      {421, "Misdirected Request"},
                                                      {422, "Unprocessable Content"},
                                                      {429, "Too Many Requests"},
                                                      {431, "Request Header Fields Too Large"},
                                                      {500, "Internal Server Error"},
                                                      {501, "Not Implemented"},
                                                      {503, "Service Unavailable"},
                                                      {504, "Gateway Timeout"}}};
  for (const Named& each : kPhrases) {
    if (each.status == status) {
      return each.phrase;
    }
  }
  return status < 400 ? "OK" : "Error";
}

// A header whose value would end the line is left out: it is no header that was meant.
void AddHeader(std::string& text, std::string_view name, std::string_view value) {
  if (value.find_first_of("\r\n") == std::string_view::npos) {
    text.append(name).append(": ").append(value).append("\r\n");
  }
}

}  // namespace

ReplyForm ReplyForm::For(const Head& head) {
  return {
      .has_body = head.method != "HEAD", .chunks = head.reads_chunks, .closes = !head.keeps_alive};
}

std::string ReplyText(const Reply& reply, const ReplyForm& form) {
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  text.append(Phrase(reply.status)).append("\r\n");
  for (const auto& [name, value] : reply.headers) {
    AddHeader(text, name, value);
  }
  const bool may_have_body = reply.status != 204 && reply.status != 304;
  if (may_have_body && (reply.stream || !reply.body.empty())) {
    AddHeader(text, "Content-Type", reply.content_type);
  }
  if (may_have_body && !reply.stream) {
    AddHeader(text, "Content-Length", std::to_string(reply.body.size()));
  } else if (may_have_body && form.chunks) {
    AddHeader(text, "Transfer-Encoding", "chunked");
  }
  if (form.closes) {
    AddHeader(text, "Connection", "close");
  }
  text += "\r\n";
  if (may_have_body && form.has_body && !reply.stream) {
    text += reply.body;
  }
  return text;
}

std::string Chunk(std::string_view data) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16).ptr;
  std::string chunk;
  chunk.reserve(data.size() + size.size() + 4);
  chunk.append(size.data(), end).append("\r\n").append(data).append("\r\n");
  return chunk;
}

}  // namespace tide::api
