#pragma once
// Reads whose a certificate is. Only for the .cc files of this folder; see trust.h for others.

#include <openssl/x509v3.h>

#include "common/certificates/trust.h"

namespace tide::certificates {

// Proves nothing about who signed it.
// Errors: kInvalidArgument when it carries no SPIFFE ID of Tide, or several.
[[nodiscard]] Result<Peer> PeerOf(X509* certificate);

}  // namespace tide::certificates
