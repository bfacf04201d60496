#include "cli/profile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "cli/environment.h"
#include "common/base/file.h"
#include "common/spec/yaml_tree.h"

namespace tide::cli {
namespace {

constexpr size_t kProfileMax = 64U << 10U;

struct Profile {
  std::string server;
  std::string token;
  std::string ca;
};

std::string WithoutSlash(std::string url) {
  while (url.ends_with('/')) {
    url.pop_back();
  }
  return url;
}

Result<std::string> ReadOwnFile(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Fail(ErrorCode::kNotFound, "no file " + path);
    }
    return FailErrno("cannot read the profile " + path, errno);
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    return FailErrno("cannot read the profile " + path, errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                "the profile " + path +
                    " is refused: it must be a file of your own that nobody else can write "
                    "(chmod 600), because it says where your token goes");
  }
  std::string text(kProfileMax, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) {
    return FailErrno("cannot read the profile " + path, errno);
  }
  text.resize(static_cast<size_t>(size));
  return text;
}

// Nothing where there is no such file. Keys of other programs are skipped.
Result<std::optional<Profile>> ReadProfile(const std::string& path) {
  const auto text = ReadOwnFile(path);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return std::optional<Profile>();
  }
  if (!text) {
    return std::unexpected(text.error());
  }
  const yaml::Document document = yaml::Parse(*text);
  if (document.root == nullptr || document.root->kind != yaml::Kind::kMap) {
    return Fail(ErrorCode::kInvalidArgument,
                "the profile " + path + " is not YAML with the keys `server` and `token`" +
                    (document.findings.empty() ? "" : ": " + document.findings[0].message));
  }
  Profile profile;
  for (const auto& [key, value] : document.root->entries) {
    if (value->kind == yaml::Kind::kScalar && key->text == "server") {
      profile.server = WithoutSlash(value->text);
    } else if (value->kind == yaml::Kind::kScalar && key->text == "token") {
      profile.token = value->text;
    } else if (value->kind == yaml::Kind::kScalar && key->text == "ca") {
      profile.ca = value->text;
    }
  }
  return profile;
}

Status CheckServer(const Server& server) {
  if (!server.url.starts_with("http://") && !server.url.starts_with("https://")) {
    return Fail(ErrorCode::kInvalidArgument,
                "the server \"" + server.url + "\" (from " + server.origin +
                    ") must begin with http:// or https://");
  }
  const bool clean = std::all_of(server.token.begin(), server.token.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7F;
  });
  if (!clean) {
    return Fail(ErrorCode::kInvalidArgument, "the token holds blanks or control characters");
  }
  if (!server.ca.empty() && ::access(server.ca.c_str(), R_OK) != 0) {
    auto failure = FailErrno(
        "cannot read the authority " + server.ca + " (--ca, TIDE_CA, or `ca` in the profile)",
        errno);
    failure.error().code = ErrorCode::kInvalidArgument;
    return failure;
  }
  return {};
}

}  // namespace

std::string DevProfilePath(const std::string& named, const std::string& runtime_dir) {
  if (!named.empty()) {
    return named;
  }
  struct stat info{};
  const bool ours = !runtime_dir.empty() && ::stat(runtime_dir.c_str(), &info) == 0 &&
                    S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                    (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return ours ? runtime_dir + "/tide-dev-profile.yaml"
              : "/tmp/tide-" + std::to_string(::geteuid()) + "/dev-profile.yaml";
}

std::string DevProfilePath() {
  return DevProfilePath(Env("TIDE_DEV_PROFILE"), Env("XDG_RUNTIME_DIR"));
}

std::string UserProfilePath() {
  std::string config = Env("XDG_CONFIG_HOME");
  if (config.empty() && !Env("HOME").empty()) {
    config = Env("HOME") + "/.config";
  }
  return config.empty() ? "" : config + "/tide/config.yaml";
}

Status WriteProfile(const std::string& path, const Server& server) {
  if (path.empty()) {
    return Fail(ErrorCode::kNotFound,
                "there is no place for the token: neither HOME nor XDG_CONFIG_HOME is set");
  }
  TIDE_TRY(MakeDirs(std::filesystem::path(path).parent_path().string(), 0700));
  std::string text = "server: " + server.url + "\n";
  if (!server.token.empty()) {
    text += "token: " + server.token + "\n";
  }
  if (!server.ca.empty()) {
    text += "ca: '" + std::filesystem::absolute(server.ca).string() + "'\n";
  }
  return WriteFileDurably(path, text);
}

Status ForgetToken(const std::string& path, const std::string& server) {
  TIDE_ASSIGN(const auto profile, ReadProfile(path));
  return profile && profile->server == server
             ? WriteProfile(path, {.url = server, .token = "", .origin = "", .ca = profile->ca})
             : Status();
}

ServerSources SourcesOfThisProcess(const std::string& flag, const std::string& ca) {
  ServerSources sources{flag, Env("TIDE_SERVER"), Env("TIDE_TOKEN"), {}, ca};
  if (ca.empty()) {
    sources.ca = Env("TIDE_CA");
  }
  if (const std::string path = UserProfilePath(); !path.empty()) {
    sources.profiles.push_back(path);
  }
  sources.profiles.push_back(DevProfilePath());
  return sources;
}

Result<Server> ResolveServer(const ServerSources& sources) {
  Server server;
  if (!sources.flag.empty()) {
    server = {WithoutSlash(sources.flag), "", "--server", ""};
  } else if (!sources.variable.empty()) {
    server = {WithoutSlash(sources.variable), "", "TIDE_SERVER", ""};
  }
  server.token = sources.token;
  server.ca = sources.ca;
  for (const std::string& path : sources.profiles) {
    if (!server.url.empty() && !server.token.empty() && !server.ca.empty()) {
      break;
    }
    TIDE_ASSIGN(const auto profile, ReadProfile(path));
    if (!profile || profile->server.empty()) {
      continue;
    }
    if (server.url.empty()) {
      server.url = profile->server;
      server.origin = path;
    }
    if (server.token.empty() && profile->server == server.url) {
      server.token = profile->token;
    }
    if (server.ca.empty() && profile->server == server.url) {
      server.ca = profile->ca;
    }
  }
  if (server.url.empty()) {
    server.url = kUsualServer;
    server.origin = "the default";
  }
  TIDE_TRY(CheckServer(server));
  return server;
}

}  // namespace tide::cli
