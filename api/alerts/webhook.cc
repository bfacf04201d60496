#include "api/alerts/webhook.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/alerts/outbox.h"
#include "common/base/file.h"
#include "common/digest/hmac.h"
#include "common/digest/sha256.h"
#include "common/health/kernel_log.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

using nlohmann::json;

constexpr auto kLookEvery = std::chrono::milliseconds(1000);
constexpr auto kPatience = std::chrono::seconds(10);
constexpr size_t kAnswerMax = 65536;
constexpr size_t kReasonMax = 200;  // of an answer, in the log

Instant Monotonic() {
  return Instant::FromUnixNanos(MonotonicNanos());
}

// "https://host:8443/hooks/tide" in two.
struct Address {
  std::string server;  // "https://host:8443"
  std::string path;    // "/hooks/tide"
};

Result<Address> ParseUrl(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string name = url.substr(0, scheme);
  if (scheme == std::string::npos || (name != "http" && name != "https")) {
    return Fail(ErrorCode::kInvalidArgument,
                "--webhook " + url + " is not http://HOST/PATH or https://HOST/PATH");
  }
  const size_t path = url.find('/', scheme + 3);
  Address address{url.substr(0, path), path == std::string::npos ? "/" : url.substr(path)};
  if (address.server.size() == scheme + 3 || address.server.contains('@')) {
    return Fail(ErrorCode::kInvalidArgument,
                "--webhook " + url + " needs a host, and no user before it");
  }
  const size_t bracket = address.server.find(']');  // of an IPv6 address
  const size_t colon =
      address.server.find(':', bracket == std::string::npos ? scheme + 3 : bracket);
  const std::string port = colon == std::string::npos ? "1" : address.server.substr(colon + 1);
  const bool number = port.size() <= 5 && !port.empty() &&
                      std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
  if (!number || std::stoi(port) < 1 || std::stoi(port) > 65535) {
    return Fail(ErrorCode::kInvalidArgument, "--webhook " + url + " has no port behind its colon");
  }
  return address;
}

std::string BodyOf(const Notice& notice) {
  const auto text = [](const std::string& value) { return value.empty() ? json() : json(value); };
  const Instant since = notice.alert.since;
  return json{{"version", 1},
              {"id", notice.Id()},
              {"alert", notice.key},
              {"status", notice.resolved ? "resolved" : "firing"},
              {"summary", notice.alert.summary},
              {"node", text(notice.alert.node)},
              {"fault", notice.alert.fault == 0 ? json() : json(notice.alert.fault)},
              {"since", since.is_set() ? json(FormatRfc3339(since)) : json()}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

// Reports whether the receiver does not want what was posted, and will not the next time: it found
// fault with that, and not with the time or the rate at which it came.
bool IsRefusal(int status) {
  constexpr int kRequestTimeout = 408;
  constexpr int kTooManyRequests = 429;
  return status / 100 == 4 && status != kRequestTimeout && status != kTooManyRequests;
}

class PostingWebhook final : public Webhook {
 public:
  PostingWebhook(const ViewStore& store, WebhookOptions options, Address address, Outbox outbox)
      : store_(store),
        options_(std::move(options)),
        address_(std::move(address)),
        outbox_(std::move(outbox)),
        client_(address_.server) {
    client_.set_connection_timeout(kPatience);
    client_.set_read_timeout(kPatience);
    client_.set_write_timeout(kPatience);
    if (!options_.ca.empty()) {
      client_.set_ca_cert_path(options_.ca.c_str());
    }
    client_.set_decompress(false);
    thread_ = std::async(std::launch::async, [this] { Run(); });
  }
  PostingWebhook(const PostingWebhook&) = delete;
  PostingWebhook& operator=(const PostingWebhook&) = delete;
  ~PostingWebhook() override { thread_.wait(); }

  bool WaitForEnd(std::chrono::milliseconds time) override {
    return thread_.wait_for(time) == std::future_status::ready;
  }

 private:
  void Run() {
    while (!store_.Pause(kLookEvery)) {
      Look();
      while (!store_.stopped() && PostNext()) {
      }
    }
  }

  void Look() {
    const ViewPtr view = store_.Get();
    // Before the first view nothing is known to have ended.
    Alerts firing = view == nullptr ? outbox_.told() : FiringAlerts(*view, SystemNow());
    const bool answers = view != nullptr && !store_.broken();
    if (answers) {
      silent_since_ = Instant();
      firing.erase(kSchedulerKey);
    } else if (const auto told = outbox_.told().find(kSchedulerKey); told != outbox_.told().end()) {
      silent_since_ = told->second.since;  // a restart of this program ends nothing
    } else if (!silent_since_.is_set() && IsSilentForLong(store_.StaleSeconds().value_or(0))) {
      silent_since_ = SystemNow();
    }
    if (silent_since_.is_set()) {
      firing[kSchedulerKey] = SilentSchedulerAlert(silent_since_);
    }
    outbox_.Take(std::move(firing));
  }

  // Reports whether one was posted and answered for good, so that there may be another.
  bool PostNext() {
    const auto notice = outbox_.Due(Monotonic());
    if (!notice) {
      return false;
    }
    const std::string body = BodyOf(*notice);
    const int64_t seconds = SystemNow().unix_nanos() / 1'000'000'000;
    httplib::Request request;
    request.method = "POST";
    request.path = address_.path;
    request.headers = {{"Tide-Signature", SignBody(options_.secret, seconds, body)},
                       {"Content-Type", "application/json"}};
    request.body = body;
    // Its answer means nothing but to people, and may be long, or never end.
    size_t received = 0;
    std::string reason;
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      reason.append(data, std::min(size, kReasonMax - reason.size()));
      received += size;
      return received <= kAnswerMax && std::chrono::steady_clock::now() < give_up;
    };
    const auto answer = client_.send(request);
    if (answer && IsRefusal(answer->status)) {
      ++options_.counters->refused;
      outbox_.Refused(*notice, Monotonic());
      log::Failure("Alert refused, it is set aside",
                   {{"Alert", notice->Id()},
                    {"To", address_.server},
                    {"Status", answer->status},
                    {"Reason", health::PrintableUtf8(reason, kReasonMax)}});
      Save();
      return true;
    }
    if (!answer || answer->status / 100 != 2) {
      ++options_.counters->failed;
      outbox_.Failed(Monotonic());
      log::Warning("Alert not taken, it is tried again",
                   {{"Alert", notice->key},
                    {"To", address_.server},
                    {"Error",
                     answer ? "status " + std::to_string(answer->status)
                            : httplib::to_string(answer.error())}});
      return false;
    }
    ++options_.counters->taken;
    outbox_.Taken(*notice);
    log::Info("Alert taken", {{"Alert", notice->key}, {"Resolved", notice->resolved}});
    Save();
    return true;
  }

  void Save() const {
    // Not on disk: after a restart it may be posted again, with the id of this one.
    if (const Status saved = WriteFileDurably(options_.state, outbox_.Save()); !saved) {
      log::Failure("Alerts not remembered",
                   {{"File", options_.state}, {"Error", saved.error().message}});
    }
  }

  const ViewStore& store_;
  const WebhookOptions options_;
  const Address address_;
  Outbox outbox_;
  Instant silent_since_;  // of the scheduler, while that is an alert
  httplib::Client client_;
  std::future<void> thread_;
};

}  // namespace

std::string SignBody(const std::string& secret, int64_t seconds, const std::string& body) {
  const std::string text = std::to_string(seconds) + "." + body;
  const HmacBytes code = HmacSha256(secret, text);
  return "t=" + std::to_string(seconds) + ",v1=" + Hex(code.data(), code.size());
}

Result<std::unique_ptr<Webhook>> Webhook::Open(const ViewStore& store,
                                               const WebhookOptions& options) {
  TIDE_ASSIGN(Address address, ParseUrl(options.url));
  Outbox outbox;
  if (const auto saved = ReadFile(options.state); saved) {
    auto loaded = Outbox::Load(*saved);
    if (!loaded) {
      return Fail(ErrorCode::kCorrupt,
                  options.state + " is no record of alerts: " + loaded.error().message +
                      "; move it away to have open alerts posted anew");
    }
    outbox = *std::move(loaded);
  } else if (saved.error().code != ErrorCode::kNotFound) {
    return std::unexpected(saved.error());
  }
  // Now rather than with the first alert.
  TIDE_TRY(WriteFileDurably(options.state, outbox.Save()));
  if (options.url.starts_with("http://")) {
    log::Warning("alerts are posted in clear", {{"webhook", address.server}});
  }
  return std::unique_ptr<Webhook>(
      std::make_unique<PostingWebhook>(store, options, std::move(address), std::move(outbox)));
}

}  // namespace tide::api
