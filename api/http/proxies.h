#pragma once
// Proxies that are believed: where the client behind one sits, whether it speaks HTTPS, and, where
// they sign people in, who it is. From anybody else such headers mean nothing. Immutable.

#include <cstddef>
#include <string>
#include <vector>

#include "api/gate/head.h"
#include "common/base/result.h"

namespace tide::api {

// Addresses that begin alike: "10.0.0.0/8", "2001:db8::/32", or one: "127.0.0.1".
class AddressRange {
 public:
  // Errors: kInvalidArgument.
  [[nodiscard]] static Result<AddressRange> Parse(const std::string& text);
  //   address: as a socket has it, numbers only.
  [[nodiscard]] bool Holds(const std::string& address) const;

 private:
  std::vector<unsigned char> network_;  // 4 bytes or 16
  size_t bits_ = 0;
};

// How proxies are known and what they say.
struct ProxyTrust {
  std::vector<AddressRange> addresses;  // where they sit
  std::string secret;                   // that each request shows; "" = none is asked for
  std::string user_header;              // that names the user; "" = they sign nobody in
};

class TrustedProxies {
 public:
  TrustedProxies() = default;  // none
  explicit TrustedProxies(ProxyTrust trust);

  // Returns whether a proxy sits there, so that its connections are those of many.
  [[nodiscard]] bool SitsAt(const std::string& peer) const;
  // Returns where the request came from: the last address in X-Forwarded-For that is no proxy's.
  [[nodiscard]] std::string ClientOf(const Head& head, const std::string& peer) const;
  // Returns whether the client speaks HTTPS to a trusted proxy.
  [[nodiscard]] bool SaysHttps(const Head& head, const std::string& peer) const;
  // Returns the user that a trusted proxy has signed in; "" = none.
  [[nodiscard]] std::string UserOf(const Head& head, const std::string& peer) const;
  // Returns whether somebody who is not trusted names a user.
  [[nodiscard]] bool IsUserForged(const Head& head, const std::string& peer) const;

 private:
  // With the secret, too: where a proxy sits there may be other programs.
  [[nodiscard]] bool Trusts(const Head& head, const std::string& peer) const;

  ProxyTrust trust_;
  std::string secret_digest_;
};

// Header that shows the secret of a proxy.
inline constexpr const char* kProxySecretHeader = "tide-proxy-secret";

}  // namespace tide::api
