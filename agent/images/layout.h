#pragma once
// The parts of the OCI image format that Tide reads itself: which manifest is meant, what it holds,
// and the environment of the image (https://github.com/opencontainers/image-spec). Docker's
// manifests of the second version have the same fields.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/images/reference.h"
#include "common/base/result.h"

namespace tide::agent {

inline constexpr size_t kManifestMax = 4U << 20U;  // what registries take at most

struct Descriptor {
  std::string digest;
  uint64_t size = 0;
  std::string tag = {};  // of an entry in a layout's index
  std::string os = {};   // of an entry in an index of several platforms
  std::string architecture = {};
  bool operator==(const Descriptor&) const = default;
};

struct Manifest {
  bool is_index = false;
  std::vector<Descriptor> manifests;  // of an index
  Descriptor config;                  // of an image
  std::vector<Descriptor> layers;
};

// Errors: kCorrupt.
[[nodiscard]] Result<Manifest> ParseManifest(std::string_view json);

// The entry of an index for this machine.
//   Errors: kNotFound, with the platforms that there are.
[[nodiscard]] Result<Descriptor> ChoosePlatform(const Manifest& index);

// What the image wants in the environment of its processes. Errors: kCorrupt.
[[nodiscard]] Result<std::map<std::string, std::string>> ParseImageEnv(std::string_view config);

// The entry of the layout that `image` means.
//   Errors: kNotFound, with what there is; kCorrupt.
[[nodiscard]] Result<Descriptor> FindInLayout(const ImageReference& image);

// A small blob of a layout's folder. Errors: kNotFound, kCorrupt where its content is not what the
// digest says.
[[nodiscard]] Result<std::string> ReadBlob(const std::string& folder, const std::string& digest);

// The name of a layout with one entry, for programs that take no digest.
inline constexpr const char* kOnlyTag = "tide";
// Makes `folder` a layout of this one image, whose blobs lie in `blobs`.
[[nodiscard]] Status WriteLayout(const std::string& folder,
                                 const std::string& blobs,
                                 const Descriptor& manifest,
                                 std::string_view media_type);
// As the manifest says, or as its form does.
[[nodiscard]] std::string MediaTypeOf(std::string_view manifest);

}  // namespace tide::agent
