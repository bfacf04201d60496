#include "common/certificates/authority.h"

#include <arpa/inet.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/base/file.h"
#include "common/certificates/openssl.h"
#include "common/certificates/peer.h"

namespace tide::certificates {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAuthorityKey = "ca.key";
constexpr const char* kIssuedFolder = "issued";
constexpr Duration kDay = Duration::Seconds(24 * 3600);
// Clocks of a cluster differ; a certificate is used where it was just copied to.
constexpr Duration kClockSlack = Duration::Minutes(60);
constexpr int kSerialBytes = 16;
constexpr unsigned kPublicMode = 0644;

std::string In(const std::string& folder, const char* file) {
  return folder + "/" + file;
}

Result<Owned<EVP_PKEY>> MakeKey() {
  Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (!key) {
    return FailOpenSsl("cannot make a key");
  }
  return key;
}

// At random, so that nobody needs to count: positive, as RFC 5280 wants it.
bool SetSerial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), kSerialBytes) != 1) {
    return false;
  }
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3FU) | 0x40U);
  const Owned<BIGNUM> number(BN_bin2bn(bytes.data(), kSerialBytes, nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetName(X509_NAME* name, const char* field, const std::string& value) {
  const void* text = value.data();
  return X509_NAME_add_entry_by_txt(name,
                                    field,
                                    MBSTRING_UTF8,
                                    static_cast<const unsigned char*>(text),
                                    static_cast<int>(value.size()),
                                    -1,
                                    0) == 1;
}

bool SetTimes(X509* certificate, Instant begins, Instant ends) {
  return X509_set1_notBefore(certificate, ToAsn1(begins).get()) == 1 &&
         X509_set1_notAfter(certificate, ToAsn1(ends).get()) == 1;
}

// Adds what OpenSSL's configuration language calls `value`; never for a text of somebody else.
bool AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Takes `value` over.
bool AddName(GENERAL_NAMES* names, int type, ASN1_STRING* value) {
  Owned<GENERAL_NAME> name(GENERAL_NAME_new());
  if (!name || value == nullptr) {
    ASN1_STRING_free(value);
    return false;
  }
  GENERAL_NAME_set0_value(name.get(), type, value);
  if (sk_GENERAL_NAME_push(names, name.get()) == 0) {
    return false;
  }
  (void)name.release();
  return true;
}

ASN1_STRING* Ia5(std::string_view text) {
  ASN1_STRING* const string = ASN1_IA5STRING_new();
  if (string != nullptr) {
    ASN1_STRING_set(string, text.data(), static_cast<int>(text.size()));
  }
  return string;
}

bool IsHostName(std::string_view text) {
  constexpr size_t kMost = 253;
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '*';
  });
}

Status AddHost(GENERAL_NAMES* names, const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  int size = 0;
  if (::inet_pton(AF_INET, host.c_str(), address.data()) == 1) {
    size = sizeof(in_addr);
  } else if (::inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
    size = sizeof(in6_addr);
  } else if (!IsHostName(host)) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + host + "\" is no name or address of a machine for --host");
  }
  bool added = false;
  if (size > 0) {
    ASN1_STRING* const bytes = ASN1_OCTET_STRING_new();
    added = bytes != nullptr && ASN1_STRING_set(bytes, address.data(), size) == 1 &&
            AddName(names, GEN_IPADD, bytes);
  } else {
    added = AddName(names, GEN_DNS, Ia5(host));
  }
  return added ? Status() : FailOpenSsl("cannot name " + host + " in a certificate");
}

Status AddNames(X509* certificate, const Request& request) {
  const Owned<GENERAL_NAMES> names(GENERAL_NAMES_new());
  if (!names || !AddName(names.get(), GEN_URI, Ia5(ToSpiffeId(request.identity)))) {
    return FailOpenSsl("cannot name " + Describe(request.identity) + " in a certificate");
  }
  for (const std::string& host : request.hosts) {
    TIDE_TRY(AddHost(names.get(), host));
  }
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) !=
      1) {
    return FailOpenSsl("cannot add names to a certificate");
  }
  return {};
}

Status Sign(X509* certificate, EVP_PKEY* key) {
  return X509_sign(certificate, key, EVP_sha256()) > 0 ? Status()
                                                       : FailOpenSsl("cannot sign a certificate");
}

Result<Owned<X509>> MakeAuthority(const std::string& name, EVP_PKEY* key, Instant now) {
  Owned<X509> made(X509_new());
  X509* const ca = made.get();
  const bool filled = made && X509_set_version(ca, X509_VERSION_3) == 1 && SetSerial(ca) &&
                      SetName(X509_get_subject_name(ca), "O", "Tide") &&
                      SetName(X509_get_subject_name(ca), "CN", name) &&
                      X509_set_issuer_name(ca, X509_get_subject_name(ca)) == 1 &&
                      SetTimes(ca, now - kClockSlack, now + kDay * Authority::kDaysMost) &&
                      X509_set_pubkey(ca, key) == 1 &&
                      AddExtension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                      AddExtension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                      AddExtension(ca, ca, NID_subject_key_identifier, "hash");
  if (!filled) {
    return FailOpenSsl("cannot make an authority's certificate");
  }
  TIDE_TRY(Sign(ca, key));
  return made;
}

// Certificate and key that an authority signs with.
struct Signer {
  Owned<X509> certificate;
  Owned<EVP_PKEY> key;
};

Result<Signer> ReadSigner(const std::string& folder) {
  Signer signer;
  TIDE_ASSIGN(const std::string pem, ReadFile(In(folder, kAuthorityFile)));
  TIDE_ASSIGN(auto certificates, CertificatesFromPem(pem));
  signer.certificate = std::move(certificates.front());
  TIDE_ASSIGN(const std::string key, ReadFile(In(folder, kAuthorityKey)));
  TIDE_ASSIGN(signer.key, KeyFromPem(key));
  if (X509_check_private_key(signer.certificate.get(), signer.key.get()) != 1) {
    return FailOpenSsl(In(folder, kAuthorityKey) + " is not the key of " +
                       In(folder, kAuthorityFile));
  }
  return signer;
}

Result<Owned<X509>> MakeCertificate(const Request& request,
                                    const Signer& signer,
                                    EVP_PKEY* key,
                                    Instant now) {
  Owned<X509> made(X509_new());
  X509* const leaf = made.get();
  X509* const ca = signer.certificate.get();
  const bool filled =
      made && X509_set_version(leaf, X509_VERSION_3) == 1 && SetSerial(leaf) &&
      SetName(X509_get_subject_name(leaf), "O", "Tide") &&
      SetName(X509_get_subject_name(leaf), "CN", Describe(request.identity).substr(0, 64)) &&
      X509_set_issuer_name(leaf, X509_get_subject_name(ca)) == 1 &&
      SetTimes(leaf, now - kClockSlack, now + kDay * request.days) &&
      X509_set_pubkey(leaf, key) == 1 &&
      AddExtension(leaf, ca, NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(leaf, ca, NID_key_usage, "critical,digitalSignature") &&
      AddExtension(leaf, ca, NID_ext_key_usage, "serverAuth,clientAuth") &&
      AddExtension(leaf, ca, NID_subject_key_identifier, "hash") &&
      AddExtension(leaf, ca, NID_authority_key_identifier, "keyid:always");
  if (!filled) {
    return FailOpenSsl("cannot make a certificate");
  }
  TIDE_TRY(AddNames(leaf, request));
  TIDE_TRY(Sign(leaf, signer.key.get()));
  return made;
}

// Writes the list anew, in force until the authority's end: programs keep to it however old it is.
Status WriteRevocations(const std::string& folder,
                        const Signer& signer,
                        X509_CRL* list,
                        Instant now) {
  const bool signed_now =
      X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
      X509_CRL_set_issuer_name(list, X509_get_subject_name(signer.certificate.get())) == 1 &&
      X509_CRL_set1_lastUpdate(list, ToAsn1(now - kClockSlack).get()) == 1 &&
      X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(signer.certificate.get())) == 1 &&
      X509_CRL_sort(list) == 1 && X509_CRL_sign(list, signer.key.get(), EVP_sha256()) > 0;
  if (!signed_now) {
    return FailOpenSsl("cannot sign the list of revoked certificates");
  }
  TIDE_ASSIGN(const std::string pem, ToPem(list));
  return WriteFileDurably(In(folder, kRevocationsFile), pem, kPublicMode);
}

Result<Owned<X509_CRL>> ReadRevocations(const std::string& folder) {
  TIDE_ASSIGN(const std::string pem, ReadFile(In(folder, kRevocationsFile)));
  return RevocationsFromPem(pem);
}

Result<Issued> Describe(X509* certificate, X509_CRL* revocations) {
  TIDE_ASSIGN(const Peer peer, PeerOf(certificate));
  Issued issued{.serial = peer.serial,
                .identity = peer.identity,
                .begins = ToInstant(X509_get0_notBefore(certificate)),
                .ends = peer.ends,
                .revoked = std::nullopt};
  X509_REVOKED* entry = nullptr;
  if (X509_CRL_get0_by_cert(revocations, &entry, certificate) == 1) {
    issued.revoked = ToInstant(X509_REVOKED_get0_revocationDate(entry));
  }
  return issued;
}

Status CheckRequest(const Request& request) {
  TIDE_TRY(CheckIdentity(request.identity));
  if (request.days < 1 || request.days > Authority::kDaysMost) {
    return Fail(ErrorCode::kInvalidArgument,
                std::to_string(request.days) + " days: expected 1 to " +
                    std::to_string(Authority::kDaysMost));
  }
  return {};
}

bool IsSerial(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
  });
}

}  // namespace

Result<Authority> Authority::Init(const std::string& folder, const std::string& name, Instant now) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    return Fail(ErrorCode::kConflict,
                folder + " is not empty; an authority is made in a folder of its own");
  }
  TIDE_TRY(MakeDirs(In(folder, kIssuedFolder)));
  Signer signer;
  TIDE_ASSIGN(signer.key, MakeKey());
  TIDE_ASSIGN(signer.certificate, MakeAuthority(name, signer.key.get(), now));
  TIDE_ASSIGN(const std::string key, ToPem(signer.key.get()));
  TIDE_ASSIGN(const std::string certificate, ToPem(signer.certificate.get()));
  TIDE_TRY(WriteFileDurably(In(folder, kAuthorityKey), key));
  const Owned<X509_CRL> none(X509_CRL_new());
  TIDE_TRY(WriteRevocations(folder, signer, none.get(), now));
  TIDE_TRY(WriteFileDurably(In(folder, kAuthorityFile), certificate, kPublicMode));
  return Authority(folder);
}

Result<Authority> Authority::Open(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(In(folder, kAuthorityFile), error)) {
    return Fail(ErrorCode::kNotFound,
                folder + " holds no authority; make one with `tide admin ca init`");
  }
  TIDE_TRY(ReadSigner(folder));
  return Authority(folder);
}

Result<Issued> Authority::Issue(const Request& request,
                                const std::string& target,
                                Instant now) const {
  TIDE_TRY(CheckRequest(request));
  TIDE_ASSIGN(const Signer signer, ReadSigner(folder_));
  TIDE_ASSIGN(const Owned<EVP_PKEY> key, MakeKey());
  TIDE_ASSIGN(const Owned<X509> certificate, MakeCertificate(request, signer, key.get(), now));
  TIDE_ASSIGN(const Owned<X509_CRL> revocations, ReadRevocations(folder_));
  TIDE_ASSIGN(Issued issued, Describe(certificate.get(), revocations.get()));
  TIDE_ASSIGN(const std::string key_pem, ToPem(key.get()));
  TIDE_ASSIGN(const std::string certificate_pem, ToPem(certificate.get()));
  TIDE_ASSIGN(const std::string authority_pem, ToPem(signer.certificate.get()));
  TIDE_ASSIGN(const std::string revocations_pem, ToPem(revocations.get()));
  // On record before anybody can use it.
  TIDE_TRY(WriteFileDurably(
      folder_ + "/" + kIssuedFolder + "/" + issued.serial + ".pem", certificate_pem, kPublicMode));
  TIDE_TRY(MakeDirs(target));
  TIDE_TRY(WriteFileDurably(In(target, kAuthorityFile), authority_pem, kPublicMode));
  TIDE_TRY(WriteFileDurably(In(target, kRevocationsFile), revocations_pem, kPublicMode));
  TIDE_TRY(WriteFileDurably(In(target, kIdentityFile), key_pem + certificate_pem));
  return issued;
}

Result<std::vector<Issued>> Authority::List() const {
  TIDE_ASSIGN(const Owned<X509_CRL> revocations, ReadRevocations(folder_));
  std::vector<Issued> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(In(folder_, kIssuedFolder), error)) {
    if (entry.path().extension() != ".pem") {
      continue;
    }
    TIDE_ASSIGN(const std::string pem, ReadFile(entry.path().string()));
    TIDE_ASSIGN(const auto certificates, CertificatesFromPem(pem));
    TIDE_ASSIGN(Issued issued, Describe(certificates.front().get(), revocations.get()));
    all.push_back(std::move(issued));
  }
  if (error) {
    return Fail(ErrorCode::kSystem,
                "cannot list " + In(folder_, kIssuedFolder) + ": " + error.message());
  }
  std::ranges::sort(all, {}, [](const Issued& issued) {
    return std::pair(issued.ends.unix_nanos(), issued.serial);
  });
  return all;
}

Status Authority::Revoke(const std::string& serial, Instant now) const {
  auto pem = IsSerial(serial) ? ReadFile(folder_ + "/" + kIssuedFolder + "/" + serial + ".pem")
                              : Result<std::string>(Fail(ErrorCode::kNotFound, "no serial number"));
  if (!pem) {
    return Fail(ErrorCode::kNotFound,
                folder_ + " has issued no certificate with the serial number " + serial +
                    "; `tide admin ca list` shows them");
  }
  TIDE_ASSIGN(const auto certificates, CertificatesFromPem(*pem));
  TIDE_ASSIGN(const Signer signer, ReadSigner(folder_));
  TIDE_ASSIGN(const Owned<X509_CRL> list, ReadRevocations(folder_));
  X509* const certificate = certificates.front().get();
  X509_REVOKED* known = nullptr;
  if (X509_CRL_get0_by_cert(list.get(), &known, certificate) == 1) {
    return {};
  }
  Owned<X509_REVOKED> entry(X509_REVOKED_new());
  const bool added =
      entry &&
      X509_REVOKED_set_serialNumber(entry.get(), X509_get_serialNumber(certificate)) == 1 &&
      X509_REVOKED_set_revocationDate(entry.get(), ToAsn1(now).get()) == 1 &&
      X509_CRL_add0_revoked(list.get(), entry.get()) == 1;
  if (!added) {
    return FailOpenSsl("cannot add " + serial + " to the list of revoked certificates");
  }
  (void)entry.release();
  return WriteRevocations(folder_, signer, list.get(), now);
}

}  // namespace tide::certificates
