#pragma once
// An API server of a test's own making, on a free port of the loopback interface.
// Thread rule: handlers run on the server's threads; set them before the first request.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tide::cli::testing {

struct FakeRequest {
  std::string method;
  std::string path;
  std::string query;  // "a=1&b=2", sorted by name
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case
};

struct FakeReply {
  int status = 200;
  std::string body = "{}";
  std::string type = "application/json";
  // Instead of `body`: sends pieces as they come; `write` is false once the client is gone.
  using Write = std::function<bool(std::string_view)>;
  std::function<void(const Write& write)> stream = {};
  std::map<std::string, std::string> headers = {};
  bool break_off = false;  // ends a stream by closing the connection in its middle
};

class FakeServer {
 public:
  using Handler = std::function<FakeReply(const FakeRequest&)>;

  explicit FakeServer(int port = 0);  // 0 = a free one
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // Everything without a handler is answered with 404 and a problem document.
  void On(const std::string& method, const std::string& path, Handler handler);
  void OnGet(const std::string& path, const std::string& body);

  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::vector<FakeRequest> Requests() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A problem document as the API sends it.
[[nodiscard]] FakeReply Problem(int status, const std::string& code, const std::string& detail);

}  // namespace tide::cli::testing
