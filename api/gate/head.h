#pragma once
// The head of a request: its first line and its headers (RFC 9112). Read strictly: what two
// programs might understand in two ways, a proxy and this one, is refused.

#include <cstddef>
#include <expected>
#include <map>
#include <string>
#include <string_view>

namespace tide::api {

struct Head {
  std::string method;
  std::string path;                            // decoded: "/v1/jobs/j-12"
  std::map<std::string, std::string> query;    // first value of each key, decoded
  std::map<std::string, std::string> headers;  // lower-case names; several of a name joined by ", "
  bool keeps_alive = true;                     // the client may ask more on this connection
  bool reads_chunks = true;                    // false: the client speaks HTTP/1.0
  bool chunked = false;                        // how the body comes; else by its length
  size_t content_length = 0;
  bool expects_continue = false;  // the client waits for a word before it sends the body

  [[nodiscard]] bool has_body() const { return chunked || content_length > 0; }
  [[nodiscard]] std::string Header(const std::string& name) const;
};

// A request that is not let in.
struct Refusal {
  int status = 400;
  std::string code;    // "bad_request"
  std::string detail;  // what is wrong, and what to do
};

inline constexpr size_t kHeadMax = 32U << 10U;
inline constexpr size_t kTargetMax = 8U << 10U;

// Returns where the head ends, behind its empty line; 0 while that has not come.
//   searched: bytes at the beginning that are known to hold no end.
[[nodiscard]] size_t FindHeadEnd(std::string_view bytes, size_t searched);

//   text: all of the head, its empty line included.
[[nodiscard]] std::expected<Head, Refusal> ParseHead(std::string_view text);

}  // namespace tide::api
