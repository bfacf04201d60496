#pragma once
// What a job writes as its image: a name in a registry, or an OCI layout on a file system.

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide::agent {

struct ImageReference {
  enum class Source {
    kRegistry,
    kLayout
  };
  Source source = Source::kRegistry;
  std::string name;    // "registry.example:5000/team/train", or the absolute path of a layout
  std::string tag;     // of a layout may be empty: it holds one image
  std::string digest;  // "sha256:…" of the manifest or index; empty: the tag says which
  bool operator==(const ImageReference&) const = default;

  // As people write it.
  [[nodiscard]] std::string Text() const;
};

// Forms: "train:24.10", "team/train@sha256:…", "registry.example:5000/team/train:24.10", the same
// behind "docker://", and "oci:/folder[:tag][@sha256:…]".
//   registry: of names that begin with none; "docker.io".
// A digest goes before a tag that is written with it. Errors: kInvalidArgument, with what is wrong.
[[nodiscard]] Result<ImageReference> ParseImageReference(std::string_view text,
                                                         std::string_view registry);

// "sha256:" and 64 lower-case hexadecimal digits.
[[nodiscard]] bool IsDigest(std::string_view text);
// The digits alone: a file name.
[[nodiscard]] std::string DigestHex(std::string_view digest);

}  // namespace tide::agent
