#include "agent/images/layout.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/digest/sha256.h"

namespace tide::agent {
namespace {

using Json = nlohmann::json;

constexpr const char* kTagKey = "org.opencontainers.image.ref.name";
constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* kIndexType = "application/vnd.oci.image.index.v1+json";

// Go's names, which the specification uses.
std::string ThisArchitecture() {
  utsname name{};
  ::uname(&name);
  const std::string machine = static_cast<const char*>(name.machine);
  return machine == "x86_64" ? "amd64" : machine == "aarch64" ? "arm64" : machine;
}

Descriptor ReadDescriptor(const Json& json) {
  Descriptor read;
  json.at("digest").get_to(read.digest);
  json.at("size").get_to(read.size);
  if (const auto annotations = json.find("annotations"); annotations != json.end()) {
    read.tag = annotations->value(kTagKey, "");
  }
  if (const auto platform = json.find("platform"); platform != json.end()) {
    read.os = platform->value("os", "");
    read.architecture = platform->value("architecture", "");
  }
  if (!IsDigest(read.digest)) {
    throw Json::other_error::create(501, "\"" + read.digest + "\" is no digest", &json);
  }
  return read;
}

std::vector<Descriptor> ReadDescriptors(const Json& list) {
  std::vector<Descriptor> read;
  for (const Json& each : list) {
    read.push_back(ReadDescriptor(each));
  }
  return read;
}

template <typename T>
Result<T> Parse(const std::string& what, std::string_view text, auto read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, what + " is not understood: " + error.what());
  }
}

std::string Join(const std::vector<Descriptor>& all, auto describe) {
  std::string joined;
  for (const Descriptor& each : all) {
    joined += (joined.empty() ? "" : ", ") + describe(each);
  }
  return joined.empty() ? "nothing" : joined;
}

}  // namespace

Result<Manifest> ParseManifest(std::string_view json) {
  return Parse<Manifest>("the image's manifest", json, [](const Json& parsed) {
    Manifest manifest;
    manifest.is_index = parsed.contains("manifests");
    if (manifest.is_index) {
      manifest.manifests = ReadDescriptors(parsed.at("manifests"));
    } else {
      manifest.config = ReadDescriptor(parsed.at("config"));
      manifest.layers = ReadDescriptors(parsed.at("layers"));
    }
    return manifest;
  });
}

Result<Descriptor> ChoosePlatform(const Manifest& index) {
  const std::string wanted = ThisArchitecture();
  const auto found = std::ranges::find_if(index.manifests, [&](const Descriptor& each) {
    return each.os == "linux" && each.architecture == wanted;
  });
  if (found != index.manifests.end()) {
    return *found;
  }
  if (index.manifests.size() == 1 && index.manifests.front().os.empty()) {
    return index.manifests.front();
  }
  return Fail(ErrorCode::kNotFound,
              "there is none for linux/" + wanted + ", only " +
                  Join(index.manifests,
                       [](const Descriptor& each) { return each.os + "/" + each.architecture; }));
}

Result<std::map<std::string, std::string>> ParseImageEnv(std::string_view config) {
  using Env = std::map<std::string, std::string>;
  return Parse<Env>("the image's configuration", config, [](const Json& parsed) {
    Env env;
    const Json run = parsed.value("config", Json::object());
    const Json variables = run.is_object() ? run.value("Env", Json::array()) : Json::array();
    for (const Json& each : variables.is_null() ? Json::array() : variables) {
      const std::string pair = each.get<std::string>();
      const size_t equals = pair.find('=');
      if (equals != 0 && equals != std::string::npos) {
        env[pair.substr(0, equals)] = pair.substr(equals + 1);
      }
    }
    return env;
  });
}

Result<Descriptor> FindInLayout(const ImageReference& image) {
  const auto text = ReadFile(image.name + "/index.json", kManifestMax);
  if (!text) {
    return Fail(ErrorCode::kNotFound,
                image.name + " is no OCI layout on this node: " + text.error().message);
  }
  TIDE_ASSIGN(const Manifest index, ParseManifest(*text));
  for (const Descriptor& each : index.manifests) {
    const bool meant = !image.digest.empty() ? each.digest == image.digest
                       : !image.tag.empty()  ? each.tag == image.tag
                                             : index.manifests.size() == 1;
    if (meant) {
      return each;
    }
  }
  const std::string there = Join(index.manifests, [&](const Descriptor& each) {
    return each.tag.empty() || !image.digest.empty() ? each.digest : each.tag;
  });
  return Fail(ErrorCode::kNotFound,
              (!image.digest.empty() ? "no manifest " + image.digest
               : !image.tag.empty()  ? "no tag \"" + image.tag + "\""
                                     : std::string("more than one image, so a tag is needed")) +
                  " in the layout; there is " + there);
}

Result<std::string> ReadBlob(const std::string& folder, const std::string& digest) {
  TIDE_ASSIGN(std::string blob,
              ReadFile(folder + "/blobs/sha256/" + DigestHex(digest), kManifestMax));
  if ("sha256:" + Sha256Hex(blob) != digest) {
    return Fail(ErrorCode::kCorrupt, "the blob " + digest + " has another content than it says");
  }
  return blob;
}

std::string MediaTypeOf(std::string_view manifest) {
  const Json parsed = Json::parse(manifest, nullptr, false);
  if (parsed.is_object() && parsed.contains("mediaType") && parsed.at("mediaType").is_string()) {
    return parsed.at("mediaType").get<std::string>();
  }
  return parsed.is_object() && parsed.contains("manifests") ? kIndexType : kManifestType;
}

Status WriteLayout(const std::string& folder,
                   const std::string& blobs,
                   const Descriptor& manifest,
                   std::string_view media_type) {
  TIDE_TRY(MakeDirs(folder, 0700));
  if (::symlink(blobs.c_str(), (folder + "/blobs").c_str()) != 0) {
    return FailErrno("cannot create " + folder + "/blobs", errno);
  }
  TIDE_TRY(WriteFileDurably(folder + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})"));
  const Json index = {{"schemaVersion", 2},
                      {"manifests",
                       Json::array({{{"mediaType", media_type},
                                     {"digest", manifest.digest},
                                     {"size", manifest.size},
                                     {"annotations", {{kTagKey, kOnlyTag}}}}})}};
  return WriteFileDurably(folder + "/index.json", index.dump());
}

}  // namespace tide::agent
