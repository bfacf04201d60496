#include "agent/images/reference.h"

#include <algorithm>

namespace tide::agent {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kHexDigits = 64;
constexpr size_t kNameMax = 255;  // of the distribution specification
constexpr size_t kTagMax = 128;

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsWordChar(char c) {
  return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

std::unexpected<Error> Wrong(std::string_view text, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, "image \"" + std::string(text) + "\": " + why);
}

bool IsTag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kTagMax && tag.front() != '.' && tag.front() != '-' &&
         std::ranges::all_of(tag, IsWordChar);
}

// Parts between slashes, of lower-case letters and digits with separators between them.
bool IsRepository(std::string_view name) {
  char before = '/';
  for (const char c : name) {
    const bool separator = c == '.' || c == '_' || c == '-';
    if (!IsLowerOrDigit(c) && !(separator && before != '/') && !(c == '/' && before != '/')) {
      return false;
    }
    if (c == '/' && !IsLowerOrDigit(before)) {
      return false;
    }
    before = c;
  }
  return IsLowerOrDigit(before);
}

bool IsHost(std::string_view host) {
  const size_t colon = host.find(':');
  const std::string_view name = host.substr(0, colon);
  const std::string_view port = colon == std::string_view::npos ? "0" : host.substr(colon + 1);
  return !name.empty() && name.front() != '-' && name.front() != '.' &&
         std::ranges::all_of(name,
                             [](char c) {
                               return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '.' ||
                                      c == '-';
                             }) &&
         !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

// As everywhere: the first part is a host if it looks like one.
bool LooksLikeHost(std::string_view part) {
  return part == "localhost" || part.find_first_of(".:") != std::string_view::npos;
}

// Takes "@sha256:…" and then ":tag" off the end of `rest`.
Status TakeVersion(std::string_view text, std::string_view& rest, ImageReference& image) {
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    image.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!IsDigest(image.digest)) {
      return Wrong(text, "a digest is written as sha256: and 64 hexadecimal digits");
    }
  }
  const size_t colon = rest.rfind(':');
  const size_t slash = rest.rfind('/');
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
    image.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!IsTag(image.tag)) {
      return Wrong(text, "\"" + image.tag + "\" is no tag");
    }
  }
  if (!image.digest.empty()) {
    image.tag.clear();
  }
  return {};
}

Result<ImageReference> ParseLayout(std::string_view text, std::string_view rest) {
  ImageReference image;
  image.source = ImageReference::Source::kLayout;
  TIDE_TRY(TakeVersion(text, rest, image));
  if (!rest.starts_with('/') || rest.find(':') != std::string_view::npos) {
    return Wrong(text, "a layout is written as oci:/FOLDER, oci:/FOLDER:TAG or @sha256:DIGEST");
  }
  image.name = rest;
  return image;
}

}  // namespace

bool IsDigest(std::string_view text) {
  return text.size() == kDigestPrefix.size() + kHexDigits && text.starts_with(kDigestPrefix) &&
         text.find_first_not_of("0123456789abcdef", kDigestPrefix.size()) == std::string_view::npos;
}

std::string DigestHex(std::string_view digest) {
  return std::string(digest.substr(std::min(digest.size(), kDigestPrefix.size())));
}

std::string ImageReference::Text() const {
  return (source == Source::kLayout ? "oci:" : "") + name + (tag.empty() ? "" : ":" + tag) +
         (digest.empty() ? "" : "@" + digest);
}

Result<ImageReference> ParseImageReference(std::string_view text, std::string_view registry) {
  std::string_view rest = text;
  if (rest.starts_with("oci:")) {
    return ParseLayout(text, rest.substr(4));
  }
  if (rest.starts_with("docker://")) {
    rest.remove_prefix(9);
  } else if (rest.find("://") != std::string_view::npos) {
    return Wrong(text, "write a name in a registry, or oci:/FOLDER");
  }
  ImageReference image;
  TIDE_TRY(TakeVersion(text, rest, image));
  const size_t slash = rest.find('/');
  std::string_view host = registry;
  std::string repository(rest);
  if (slash != std::string_view::npos && LooksLikeHost(rest.substr(0, slash))) {
    host = rest.substr(0, slash);
    repository = rest.substr(slash + 1);
  }
  if (host == "docker.io" && repository.find('/') == std::string::npos) {
    repository = "library/" + repository;
  }
  image.name = std::string(host) + "/" + repository;
  if (!IsHost(host.substr(0, host.find('/'))) || !IsRepository(repository) ||
      image.name.size() > kNameMax) {
    return Wrong(text,
                 "this is no name of an image; write [REGISTRY/]NAME[:TAG] in lower case, "
                 "oci:/FOLDER, or host");
  }
  if (image.tag.empty() && image.digest.empty()) {
    image.tag = "latest";
  }
  return image;
}

}  // namespace tide::agent
