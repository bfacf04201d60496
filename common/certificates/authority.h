#pragma once
// A cluster's own certificate authority: one folder with its certificate, its key, all that it has
// issued, and the list of what it has revoked. Certificates and that list are the record; there is
// no other.
//
//   ca.pem  ca.key (0600)  crl.pem  issued/<serial>.pem

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/certificates/identity.h"

namespace tide::certificates {

struct Request {
  Identity identity;
  std::vector<std::string> hosts;  // names and addresses, for who checks these: browsers, `tide`
  int days = 365;
};

struct Issued {
  std::string serial;
  Identity identity;
  Instant begins;
  Instant ends;
  std::optional<Instant> revoked;
};

// Names of files in a folder that `Issue` writes and a program is given. Key and certificate are
// one file, so that they change together.
inline constexpr const char* kAuthorityFile = "ca.pem";
inline constexpr const char* kRevocationsFile = "crl.pem";
inline constexpr const char* kIdentityFile = "identity.pem";

class Authority {
 public:
  static constexpr int kDaysMost = 3650;

  // Makes a new one in an empty or missing folder.
  // Errors: kConflict when the folder holds anything; kSystem.
  static Result<Authority> Init(const std::string& folder, const std::string& name, Instant now);
  // Errors: kNotFound, naming the folder and what makes one; those of its files.
  static Result<Authority> Open(const std::string& folder);

  // Writes a new key and its certificate with the authority's certificate and revocations to
  // `target`: a folder that a program is started with. It replaces what an earlier call wrote
  // there. Errors: kInvalidArgument for an identity, host or days that cannot be; kSystem.
  Result<Issued> Issue(const Request& request, const std::string& target, Instant now) const;
  // All that were issued, by the end of their validity.
  [[nodiscard]] Result<std::vector<Issued>> List() const;
  // Adds a certificate to the list in crl.pem. Programs take it over when they are given that file.
  // Errors: kNotFound when none was issued with this serial number; kSystem.
  [[nodiscard]] Status Revoke(const std::string& serial, Instant now) const;

 private:
  explicit Authority(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace tide::certificates
