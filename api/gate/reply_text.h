#pragma once
// An answer as it is written to a connection.

#include <string>
#include <string_view>

#include "api/gate/head.h"
#include "api/gate/reply.h"

namespace tide::api {

// How an answer is sent.
struct ReplyForm {
  bool has_body = true;  // false: to HEAD
  bool chunks = true;    // of a stream; false: it ends with the connection
  bool closes = false;   // the connection ends with the answer

  [[nodiscard]] static ReplyForm For(const Head& head);
};

// Returns status line and headers, and the body but for a stream's.
[[nodiscard]] std::string ReplyText(const Reply& reply, const ReplyForm& form);
[[nodiscard]] std::string Chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace tide::api
