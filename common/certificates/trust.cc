#include "common/certificates/trust.h"

#include <openssl/err.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/certificates/authority.h"
#include "common/certificates/openssl.h"
#include "common/certificates/peer.h"

namespace tide::certificates {

struct Trust::Parts {
  Owned<X509_STORE> store;
  Owned<X509_CRL> revocations;  // null = there is no list
};

namespace {

// The result, whose error names the file.
template <class T>
Result<T> Of(const std::string& file, Result<T> result) {
  if (!result) {
    result.error().message = file + ": " + result.error().message;
  }
  return result;
}

std::unexpected<Error> Refuse(const std::string& why) {
  return Fail(ErrorCode::kUnauthenticated, why);
}

// Names a certificate for a log, by what it says of itself, believed or not.
std::string Shown(X509* certificate) {
  const auto peer = PeerOf(certificate);
  return peer ? "the certificate " + peer->serial + " (" + Describe(peer->identity) + ")"
              : "the certificate " + SerialOf(certificate);
}

std::unexpected<Error> WhyNot(X509* certificate, int reason) {
  const std::string shown = Shown(certificate);
  switch (reason) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Refuse(shown + " expired at " +
                    FormatRfc3339(ToInstant(X509_get0_notAfter(certificate))) +
                    "; issue a new one with `tide admin ca issue`");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Refuse(shown + " is not valid before " +
                    FormatRfc3339(ToInstant(X509_get0_notBefore(certificate))) +
                    "; is this machine's clock behind, or that of the authority ahead?");
    case X509_V_ERR_CRL_NOT_YET_VALID:
      return Refuse(shown + " cannot be verified: the list of revoked certificates, " +
                    kRevocationsFile + ", is not valid yet; is this machine's clock behind?");
    case X509_V_ERR_CRL_HAS_EXPIRED:
      return Refuse(shown + " cannot be verified: the list of revoked certificates, " +
                    kRevocationsFile + ", is out of date; get a new one from the authority");
    case X509_V_ERR_CERT_REVOKED:
      return Refuse(shown + " was revoked");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return Refuse(shown + " is not of this cluster's authority");
    default:
      return Refuse(shown + ": " + X509_verify_cert_error_string(reason));
  }
}

Status VerifyChain(const Trust::Parts& parts,
                   const std::vector<Owned<X509>>& chain,
                   Side side,
                   Instant now) {
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(between, chain[i].get());
  }
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  int verified = -1;
  if (context &&
      X509_STORE_CTX_init(context.get(), parts.store.get(), chain.front().get(), between) == 1) {
    X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
    X509_VERIFY_PARAM_set_time(rules, now.unix_nanos() / Duration::Seconds(1).nanos());
    X509_STORE_CTX_set_default(context.get(), side == Side::kClient ? "ssl_client" : "ssl_server");
    verified = X509_verify_cert(context.get());
  }
  sk_X509_free(between);
  if (verified == 1) {
    return {};
  }
  if (verified < 0) {
    return FailOpenSsl("cannot verify a certificate");
  }
  return WhyNot(chain.front().get(), X509_STORE_CTX_get_error(context.get()));
}

Result<Owned<X509_CRL>> ReadList(const std::string& path) {
  auto pem = ReadFile(path);
  if (!pem && pem.error().code == ErrorCode::kNotFound) {
    return nullptr;
  }
  if (!pem) {
    return std::unexpected(pem.error());
  }
  return Of(path, RevocationsFromPem(*pem));
}

// A folder's identity.pem, which nobody else may read.
Result<std::string> ReadIdentity(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return FailErrno("cannot read the identity " + path, errno);
  }
  if ((info.st_mode & 077U) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "the key in " + path + " can be read by others; chmod 600 " + path);
  }
  return ReadFile(path);
}

}  // namespace

Result<Peer> PeerOf(X509* certificate) {
  const void* found = X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr);
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(const_cast<void*>(found)));
  Peer peer{.identity = {},
            .serial = SerialOf(certificate),
            .ends = ToInstant(X509_get0_notAfter(certificate))};
  int identities = 0;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) {
      continue;
    }
    const void* text = ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
    const std::string_view uri(
        static_cast<const char*>(text),
        static_cast<size_t>(ASN1_STRING_length(name->d.uniformResourceIdentifier)));
    TIDE_ASSIGN(peer.identity, IdentityFromSpiffeId(uri));
    ++identities;
  }
  if (identities != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "the certificate " + peer.serial + " carries " +
                    (identities == 0 ? "no" : "more than one") +
                    " SPIFFE ID of Tide, as spiffe://tide/scheduler");
  }
  return peer;
}

Result<Trust> Trust::FromFolder(const std::string& folder) {
  auto parts = std::make_shared<Parts>();
  const std::string ca_file = folder + "/" + kAuthorityFile;
  TIDE_ASSIGN(const std::string pem, ReadFile(ca_file));
  TIDE_ASSIGN(const auto authorities, Of(ca_file, CertificatesFromPem(pem)));
  TIDE_ASSIGN(parts->revocations, ReadList(folder + "/" + kRevocationsFile));
  parts->store.reset(X509_STORE_new());
  bool filled = parts->store != nullptr;
  for (const Owned<X509>& authority : authorities) {
    filled = filled && X509_STORE_add_cert(parts->store.get(), authority.get()) == 1;
  }
  if (parts->revocations) {
    filled = filled && X509_STORE_add_crl(parts->store.get(), parts->revocations.get()) == 1 &&
             X509_STORE_set_flags(parts->store.get(), X509_V_FLAG_CRL_CHECK) == 1;
  }
  if (!filled) {
    return FailOpenSsl("cannot use the authority in " + ca_file);
  }
  return Trust(std::move(parts));
}

Result<Peer> Trust::Verify(std::string_view chain, Side side, Instant now) const {
  const auto certificates = CertificatesFromPem(chain);
  if (!certificates) {
    return Refuse("the peer shows no certificate");
  }
  TIDE_TRY(VerifyChain(*parts_, *certificates, side, now));
  auto peer = PeerOf(certificates->front().get());
  if (!peer) {
    return Refuse(peer.error().message);
  }
  return peer;
}

Result<Peer> Trust::Recheck(std::string_view certificate) const {
  const auto certificates = CertificatesFromPem(certificate);
  if (!certificates) {
    return Refuse("the peer has shown no certificate");
  }
  X509* const leaf = certificates->front().get();
  X509_REVOKED* entry = nullptr;
  if (parts_->revocations && X509_CRL_get0_by_cert(parts_->revocations.get(), &entry, leaf) == 1) {
    return WhyNot(leaf, X509_V_ERR_CERT_REVOKED);
  }
  return PeerOf(leaf);
}

Result<Peer> OwnIdentity(const std::string& folder, Instant now) {
  const std::string path = folder + "/" + kIdentityFile;
  TIDE_ASSIGN(const std::string pem, ReadIdentity(path));
  TIDE_ASSIGN(const auto chain, Of(path, CertificatesFromPem(pem)));
  TIDE_ASSIGN(const auto key, Of(path, KeyFromPem(pem)));
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return Fail(ErrorCode::kInvalidArgument, path + ": its key is not that of its certificate");
  }
  TIDE_ASSIGN(const Trust trust, Trust::FromFolder(folder));
  // It is shown on both sides; what may be used for one only fails here and not in a year.
  TIDE_TRY(Of(path, trust.Verify(pem, Side::kClient, now)));
  return Of(path, trust.Verify(pem, Side::kServer, now));
}

}  // namespace tide::certificates
