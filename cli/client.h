#pragma once
// HTTP to the API server: the only user of httplib here. Retries what is safe to retry.
// Belongs to one thread.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/failure.h"
#include "cli/profile.h"
#include "common/base/time.h"

namespace httplib {
class Client;
}  // namespace httplib

namespace tide::cli {

// "a b/c" as one step of a path: "a%20b%2Fc".
[[nodiscard]] std::string UrlStep(std::string_view text);
// 128 random bits in hex, for the Idempotency-Key header.
[[nodiscard]] std::string NewIdempotencyKey();

struct PostBody {
  std::string text;
  std::string type = "application/json";
  std::string idempotency_key = {};  // "" = none
};

class Client {
 public:
  struct Patience {
    Duration timeout = Duration::Seconds(30);  // bounds a call with all its retries
    // Bounds the tries to reach a server that has not answered this process yet: it may not exist.
    Duration first_contact = Duration::Seconds(3);
  };
  Client(Server server, Patience patience);

  // Body of the answer if its status is 2xx. Until patience ends, a refused connection and 503 are
  // tried again; so is an answer that broke off, unless it is to a POST without a key.
  [[nodiscard]] Answer<std::string> Get(const std::string& path) const;
  [[nodiscard]] Answer<std::string> Post(const std::string& path, const PostBody& body) const;
  // As often as Get: once more does what once did.
  [[nodiscard]] Answer<std::string> Put(const std::string& path, const PostBody& body) const;
  [[nodiscard]] Answer<std::string> Patch(const std::string& path, const PostBody& body) const;
  [[nodiscard]] Answer<std::string> Delete(const std::string& path) const;

  enum class StreamEnd {
    kComplete,
    kBroken,  // the connection broke, perhaps before the first byte
  };
  using Sink = std::function<void(std::string_view)>;
  // As long as a job may print nothing.
  static constexpr Duration kLongSilence = Duration::Minutes(30 * 24 * 60);
  // One GET whose body goes to `sink` as it arrives, for as long as the server sends. No retries.
  // The first call of `sink`, with nothing, says that the answer begins.
  //   on_head: called before it, with the header that says where in a log the body begins, or "".
  //   silence: after so long without a byte the connection counts as broken.
  using HeadSink = std::function<void(const std::string& log_offset)>;
  [[nodiscard]] Answer<StreamEnd> Stream(const std::string& path,
                                         const Sink& sink,
                                         const HeadSink& on_head = {},
                                         Duration silence = kLongSilence) const;

  // The same of a POST: once, whatever becomes of it. A refusal to serve now is a failure, too.
  [[nodiscard]] Answer<StreamEnd> PostStream(const std::string& path,
                                             const PostBody& body,
                                             const Sink& sink,
                                             Duration silence) const;

  [[nodiscard]] const Server& server() const { return server_; }
  [[nodiscard]] Duration timeout() const { return patience_.timeout; }
  [[nodiscard]] Failure Unreachable(const std::string& why) const;

 private:
  struct Attempt {
    Answer<std::string> answer;
    bool again = false;     // worth another try, and safe
    bool answered = false;  // by a server, whatever it said
  };
  enum class Method {
    kGet,
    kPost,
    kPut,
    kPatch,
    kDelete
  };
  // What came of a request whose answer goes to a sink.
  struct Received {
    int status = 0;       // 0 = no answer began
    std::string refusal;  // the body, where the status is not 200
    bool whole = false;   // the answer has come to its end
    bool may_pass = false;
    Failure failure;  // the answer is not whole
  };
  struct StreamCall {
    std::string path;
    const PostBody* body = nullptr;  // of a POST; null = a GET
    Duration silence = kLongSilence;
  };
  [[nodiscard]] Received Receive(const StreamCall& call,
                                 const Sink& sink,
                                 const HeadSink& on_head) const;
  [[nodiscard]] Attempt Try(Method method,
                            const std::string& path,
                            const PostBody& body,
                            Duration left) const;
  [[nodiscard]] Answer<std::string> Call(Method method,
                                         const std::string& path,
                                         const PostBody& body) const;

  const Server server_;
  const Patience patience_;
  mutable bool answered_ = false;
};

// A connection that stays open between small requests, of which each is one try. Belongs to one
// thread, but for Stop.
class KeptConnection {
 public:
  KeptConnection(const Server& server, Duration timeout);
  ~KeptConnection();
  KeptConnection(const KeptConnection&) = delete;
  KeptConnection& operator=(const KeptConnection&) = delete;

  struct Reply {
    int status = 0;  // 0 = none: the server may have taken the request or not
    std::string body;
  };
  [[nodiscard]] Reply Post(const std::string& path,
                           const std::string& body,
                           const std::string& type);
  [[nodiscard]] Reply Delete(const std::string& path);
  // Ends a request under way. Any thread.
  void Stop();

 private:
  const Server server_;
  const std::unique_ptr<httplib::Client> http_;
};

}  // namespace tide::cli
