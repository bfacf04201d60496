#pragma once
// Names of leaf switches and nodes by number: "b-l{leaf:02}-n{node:02}" with leaf 7 and node 3 is
// b-l07-n03.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide {

class NamePattern {
 public:
  enum class Part : uint8_t {
    kText,
    kLeaf,
    kNode,
  };

  // `{leaf}` and `{node}`, each also with a width, `{leaf:03}`, filled up with zeros.
  // Errors: kInvalidArgument, for braces that say anything else.
  [[nodiscard]] static Result<NamePattern> Parse(std::string_view text);

  [[nodiscard]] bool Uses(Part part) const;
  [[nodiscard]] std::string Name(uint32_t leaf, uint32_t node) const;

 private:
  struct Piece {
    Part part = Part::kText;
    std::string text;  // kText
    size_t width = 0;  // else: least digits
  };
  std::vector<Piece> pieces_;
};

}  // namespace tide
