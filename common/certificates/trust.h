#pragma once
// Tells whom to believe: the authority and the revocations of one folder (authority.h), as they
// were read.

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/certificates/identity.h"

namespace tide::certificates {

struct Peer {
  Identity identity;
  std::string serial;  // of its certificate
  Instant ends;        // of the validity of its certificate
};

// How a certificate is used by the one who shows it.
enum class Side : uint8_t {
  kClient,
  kServer
};

// Any thread; never changes.
class Trust {
 public:
  // Reads ca.pem, and crl.pem where it is there.
  // Errors: kNotFound and kInvalidArgument, naming the file.
  static Result<Trust> FromFolder(const std::string& folder);

  // Verifies a chain in PEM, the peer's own certificate first.
  // Errors: kUnauthenticated with the reason in plain words: expired, not yet valid, revoked, of
  // another authority, without an identity of Tide.
  [[nodiscard]] Result<Peer> Verify(std::string_view chain, Side side, Instant now) const;
  // Says no more than Verify did once, but for what has changed since: for each call of a
  // connection. Errors: kUnauthenticated when it was revoked; what is no certificate of Tide.
  [[nodiscard]] Result<Peer> Recheck(std::string_view certificate) const;

  struct Parts;

 private:
  explicit Trust(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

// Reads the identity that a program shows others, and checks that they will take it: key and
// certificate belong together, the authority in the same folder has signed it, it is in force.
// Errors: kInvalidArgument and kUnauthenticated, naming the file and what to do.
[[nodiscard]] Result<Peer> OwnIdentity(const std::string& folder, Instant now);

}  // namespace tide::certificates
