#include "common/certificates/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <ctime>

namespace tide::certificates {
namespace {

constexpr int64_t kNanos = 1'000'000'000;

Owned<BIO> Reader(std::string_view text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return {data, static_cast<size_t>(size)};
}

template <class Write>
Result<std::string> Written(const std::string& what, Write&& write) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) {
    return FailOpenSsl("cannot write " + what);
  }
  return TextOf(memory.get());
}

}  // namespace

std::unexpected<Error> FailOpenSsl(const std::string& doing) {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return Fail(ErrorCode::kSystem, doing + (code == 0 ? "" : std::string(": ") + text.data()));
}

Result<std::vector<Owned<X509>>> CertificatesFromPem(std::string_view pem) {
  const Owned<BIO> reader = Reader(pem);
  std::vector<Owned<X509>> certificates;
  while (Owned<X509> next{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(next));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end || certificates.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "this holds no certificate in PEM, or a broken one");
  }
  return certificates;
}

Result<Owned<X509_CRL>> RevocationsFromPem(std::string_view pem) {
  Owned<X509_CRL> list(PEM_read_bio_X509_CRL(Reader(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!list) {
    return Fail(ErrorCode::kInvalidArgument, "this holds no list of revoked certificates in PEM");
  }
  return list;
}

Result<Owned<EVP_PKEY>> KeyFromPem(std::string_view pem) {
  // An empty password: else OpenSSL would ask for one on the terminal.
  std::string none;
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, nullptr, none.data()));
  ERR_clear_error();
  if (!key) {
    return Fail(ErrorCode::kInvalidArgument, "this holds no private key in PEM without a password");
  }
  return key;
}

Result<std::string> ToPem(X509* certificate) {
  return Written("a certificate", [&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

Result<std::string> ToPem(X509_CRL* revocations) {
  return Written("the list of revoked certificates",
                 [&](BIO* out) { return PEM_write_bio_X509_CRL(out, revocations); });
}

Result<std::string> ToPem(EVP_PKEY* key) {
  return Written("a private key", [&](BIO* out) {
    return PEM_write_bio_PKCS8PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string SerialOf(const X509* certificate) {
  const Owned<BIGNUM> number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const Owned<char> digits(number ? BN_bn2hex(number.get()) : nullptr);
  return digits ? digits.get() : "";
}

Instant ToInstant(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return {};
  }
  return Instant::FromUnixNanos(::timegm(&parts) * kNanos);
}

Owned<ASN1_TIME> ToAsn1(Instant time) {
  return Owned<ASN1_TIME>(ASN1_TIME_set(nullptr, time.unix_nanos() / kNanos));
}

}  // namespace tide::certificates
