#pragma once
// What skopeo and umoci say when they fail, in one line for the user of the job, and what follows
// from it.

#include <string>
#include <string_view>

#include "agent/images/reference.h"

namespace tide::agent {

enum class ImageFault {
  kJob,       // no node could do it: a wrong name, a broken image
  kNode,      // another node may
  kShare,     // the same, and this node did nothing wrong: the user's share of it is taken
  kDisk,      // this node's disk is full; another one's may not be
  kRegistry,  // it may work later: the registry does not answer
};

struct ImageFailure {
  ImageFault fault = ImageFault::kJob;
  std::string message;
};

//   errors: what the program wrote on stderr.
[[nodiscard]] ImageFailure ExplainImageFailure(const ImageReference& image,
                                               std::string_view errors);

}  // namespace tide::agent
