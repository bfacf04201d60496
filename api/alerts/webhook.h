#pragma once
// Alerts by webhook: each is posted as JSON to one address, signed, until it is taken. One that the
// receiver refuses does not hold the others.
//
// Thread rule: Open on any thread; the object has a thread of its own, which its end waits for.

#include <chrono>
#include <memory>
#include <string>

#include "api/alerts/counters.h"
#include "api/view/view.h"
#include "common/base/result.h"

namespace tide::api {

struct WebhookOptions {
  std::string url;     // http://HOST[:PORT]/PATH or https://…
  std::string secret;  // signs the body
  std::string state;   // file that remembers what was taken
  std::string ca;      // PEM file of authorities; "" = the system's
  std::shared_ptr<AlertCounters> counters = std::make_shared<AlertCounters>();
};

// Returns "t=SECONDS,v1=HEX": HMAC-SHA256 of "SECONDS.BODY".
[[nodiscard]] std::string SignBody(const std::string& secret,
                                   int64_t seconds,
                                   const std::string& body);

class Webhook {
 public:
  // Errors: kInvalidArgument (the address), kCorrupt and those of files (the state).
  [[nodiscard]] static Result<std::unique_ptr<Webhook>> Open(const ViewStore& store,
                                                             const WebhookOptions& options);
  virtual ~Webhook() = default;

  // Waits for the end of the thread, which the store's Stop has told. Reports whether it came in
  // time: else a request is under way, and the object's end waits for it.
  [[nodiscard]] virtual bool WaitForEnd(std::chrono::milliseconds time) = 0;
};

}  // namespace tide::api
