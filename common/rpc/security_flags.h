#pragma once
// The flags of every daemon that say how it knows the others.

#include <CLI/CLI.hpp>

#include "common/rpc/security.h"

namespace tide::rpc {

inline void AddSecurityFlags(CLI::App& app, SecurityOptions& options) {
  app.add_option(
      "--tls",
      options.tls,
      "folder with ca.pem, identity.pem and crl.pem, as `tide admin ca issue` writes it; "
      "needed for TCP");
  app.add_flag("--insecure-plaintext",
               options.insecure_plaintext,
               "use TCP without TLS: whoever reads the network reads secrets and tokens");
  app.add_option("--cluster-token-file",
                 options.cluster_token_file,
                 "file of mode 600 with a secret of the cluster's daemons, where there is no TLS");
}

}  // namespace tide::rpc
