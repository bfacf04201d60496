#pragma once
// Owners of OpenSSL's objects, and PEM files as such. Only for the .cc files of this folder.

#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::certificates {

struct Freed {
  void operator()(X509* owned) const { X509_free(owned); }
  void operator()(X509_CRL* owned) const { X509_CRL_free(owned); }
  void operator()(X509_STORE* owned) const { X509_STORE_free(owned); }
  void operator()(X509_STORE_CTX* owned) const { X509_STORE_CTX_free(owned); }
  void operator()(X509_REVOKED* owned) const { X509_REVOKED_free(owned); }
  void operator()(EVP_PKEY* owned) const { EVP_PKEY_free(owned); }
  void operator()(BIO* owned) const { BIO_free_all(owned); }
  void operator()(BIGNUM* owned) const { BN_free(owned); }
  void operator()(ASN1_STRING* owned) const { ASN1_STRING_free(owned); }
  void operator()(GENERAL_NAMES* owned) const { GENERAL_NAMES_free(owned); }
  void operator()(GENERAL_NAME* owned) const { GENERAL_NAME_free(owned); }
  void operator()(X509_EXTENSION* owned) const { X509_EXTENSION_free(owned); }
  void operator()(char* owned) const { OPENSSL_free(owned); }
};
template <class T>
using Owned = std::unique_ptr<T, Freed>;

// kSystem with what OpenSSL says was wrong, whose queue of errors is empty afterwards.
[[nodiscard]] std::unexpected<Error> FailOpenSsl(const std::string& doing);

// All certificates in a PEM text. Errors: kInvalidArgument when there is none, or one is broken.
[[nodiscard]] Result<std::vector<Owned<X509>>> CertificatesFromPem(std::string_view pem);
[[nodiscard]] Result<Owned<X509_CRL>> RevocationsFromPem(std::string_view pem);
[[nodiscard]] Result<Owned<EVP_PKEY>> KeyFromPem(std::string_view pem);
[[nodiscard]] Result<std::string> ToPem(X509* certificate);
[[nodiscard]] Result<std::string> ToPem(X509_CRL* revocations);
[[nodiscard]] Result<std::string> ToPem(EVP_PKEY* key);

// In hexadecimal digits, as `openssl x509 -serial` prints it.
[[nodiscard]] std::string SerialOf(const X509* certificate);
[[nodiscard]] Instant ToInstant(const ASN1_TIME* time);
[[nodiscard]] Owned<ASN1_TIME> ToAsn1(Instant time);

}  // namespace tide::certificates
