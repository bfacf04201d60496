#pragma once
// Which server to talk to, and as whom.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::cli {

struct Server {
  std::string url;      // "http://127.0.0.1:7070", no slash at the end
  std::string token;    // "" = none
  std::string origin;   // where `url` comes from, for messages
  std::string ca = {};  // PEM file: the authorities to trust with it; "" = those of the system
};

// What may name the server, strongest first.
struct ServerSources {
  std::string flag;                   // --server
  std::string variable;               // TIDE_SERVER
  std::string token;                  // TIDE_TOKEN
  std::vector<std::string> profiles;  // files with the keys `server`, `token` and `ca`
  std::string ca = {};                // --ca, else TIDE_CA
};

inline constexpr std::string_view kUsualServer = "http://127.0.0.1:7070";

// The user's configuration, then the file that `tide dev` writes.
[[nodiscard]] ServerSources SourcesOfThisProcess(const std::string& flag, const std::string& ca);

// The user's own, "" where neither XDG_CONFIG_HOME nor HOME is set.
[[nodiscard]] std::string UserProfilePath();
// Keeps address, token and authority, for their owner alone. Errors: those of files.
[[nodiscard]] Status WriteProfile(const std::string& path, const Server& server);
// Forgets the token where the profile is of this server; nothing to forget is fine.
[[nodiscard]] Status ForgetToken(const std::string& path, const std::string& server);

// Where `tide dev` leaves address and token of its server.
[[nodiscard]] std::string DevProfilePath();
//   named: TIDE_DEV_PROFILE; runtime_dir: XDG_RUNTIME_DIR, which counts only where it is a folder
//   of ours that nobody else can write: `sudo` may have kept another user's.
[[nodiscard]] std::string DevProfilePath(const std::string& named, const std::string& runtime_dir);

// A token from a profile goes only to the server that the same profile names.
// Errors: kPermissionDenied for a profile that others own or can write, kInvalidArgument, also
// where the file of the authority cannot be read.
[[nodiscard]] Result<Server> ResolveServer(const ServerSources& sources);

}  // namespace tide::cli
