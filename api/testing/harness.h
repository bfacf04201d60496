#pragma once
// A whole tide-api in the test's process, in front of the fake upstream, and a client for it.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/http/routes.h"
#include "api/testing/fake_upstream.h"

namespace tide::api::testing {

struct Answer {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  // lower-case names
};

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using HeaderList = std::map<std::string, std::string>;

// A response that goes on: gathers what came and lets the test wait for a text in it.
class OpenStream {
 public:
  // body: of a POST; nothing = a GET.
  OpenStream(int port, std::string path, std::optional<std::string> body, HeaderList headers);
  ~OpenStream();
  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;
  // All text so far, once it holds `wanted`; what there is after 10 s otherwise.
  std::string WaitFor(const std::string& wanted);
  // All text, once the server has ended the response.
  std::string WaitForEnd();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::function<void()> hang_up_;
  std::thread thread_;
};

class Harness {
 public:
  struct Options {
    int max_streams = 8;
    int user_streams = 8;
    std::shared_ptr<Allowances> allowances = {};
    std::shared_ptr<RequestSlots> requests = {};
    std::shared_ptr<const TrustedProxies> proxies = {};
    std::chrono::milliseconds tell_every = std::chrono::seconds(30);
    std::chrono::milliseconds stale_after = std::chrono::seconds(3);
    bool start_scheduler = true;
    std::vector<std::string> other_schedulers = {};  // named before the harness's own
  };
  Harness() : Harness(Options()) {}
  explicit Harness(const Options& options);
  ~Harness();
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  // Calls as the owner of `token`; no token = not signed in.
  Answer Get(const std::string& path, HeaderList headers = {});
  Answer Post(const std::string& path, const std::string& body, HeaderList headers = {});
  // Any method. headers: with "content-type", or none.
  Answer Call(const std::string& method,
              const std::string& path,
              const std::string& body,
              HeaderList headers = {});
  std::unique_ptr<OpenStream> Open(const std::string& path, HeaderList headers = {});
  std::unique_ptr<OpenStream> OpenPost(const std::string& path, const std::string& body);
  // Publishes and waits until the API shows it.
  void Show(const std::vector<v1::Job>& jobs,
            const std::vector<v1::Node>& nodes = {},
            const std::vector<v1::Incident>& incidents = {});
  ViewStore& store();
  [[nodiscard]] Routes routes();

  std::string token = TokenOf("alice");
  TempFolder folder;
  FakeUpstream upstream;

 private:
  HeaderList WithToken(HeaderList headers) const;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

[[nodiscard]] v1::Job RunningJob(uint64_t id, const std::string& name, const std::string& user);
[[nodiscard]] v1::Node ReadyNode(const std::string& name, const std::string& endpoint);
// Adds an attempt whose tasks run on `nodes`.
v1::Attempt& AddAttempt(v1::Job& job, uint64_t epoch, const std::vector<std::string>& nodes);

}  // namespace tide::api::testing
