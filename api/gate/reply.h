#pragma once
// An answer to a request, as plain values.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tide::api {

// Where a streamed body goes. Both say false once the client is gone or the server stops.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual bool Write(std::string_view data) = 0;
  virtual bool Alive() = 0;
};

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kTextType = "text/plain; charset=utf-8";

struct Reply {
  int status = 200;
  std::string content_type = std::string(kJsonType);
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::function<void(BodySink&)> stream;  // set = the body, sent in chunks, instead of `body`
};

}  // namespace tide::api
