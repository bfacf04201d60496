#include "common/cluster/name_pattern.h"

#include <algorithm>
#include <cctype>

namespace tide {
namespace {

// "leaf", "node:02": the name, and the width after the colon.
bool ReadPlace(std::string_view inside, NamePattern::Part& part, size_t& width) {
  const size_t colon = inside.find(':');
  const std::string_view name = inside.substr(0, colon);
  part = name == "leaf" ? NamePattern::Part::kLeaf : NamePattern::Part::kNode;
  if (name != "leaf" && name != "node") {
    return false;
  }
  if (colon == std::string_view::npos) {
    return true;
  }
  const std::string_view digits = inside.substr(colon + 1);
  if (digits.size() != 2 || digits[0] != '0' ||
      std::isdigit(static_cast<unsigned char>(digits[1])) == 0 || digits[1] == '0') {
    return false;
  }
  width = static_cast<size_t>(digits[1] - '0');
  return true;
}

}  // namespace

Result<NamePattern> NamePattern::Parse(std::string_view text) {
  NamePattern pattern;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find('{'), rest.size());
    const std::string_view plain = rest.substr(0, open);
    if (plain.contains('}')) {
      return Fail(ErrorCode::kInvalidArgument, "a } without its {");
    }
    if (!plain.empty()) {
      pattern.pieces_.push_back({Part::kText, std::string(plain), 0});
    }
    if (open == rest.size()) {
      break;
    }
    const size_t close = rest.find('}', open);
    Piece piece;
    if (close == std::string_view::npos ||
        !ReadPlace(rest.substr(open + 1, close - open - 1), piece.part, piece.width)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "braces hold {leaf} or {node}, with a width such as {leaf:02}");
    }
    pattern.pieces_.push_back(std::move(piece));
    rest.remove_prefix(close + 1);
  }
  return pattern;
}

bool NamePattern::Uses(Part part) const {
  return std::any_of(
      pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.part == part; });
}

std::string NamePattern::Name(uint32_t leaf, uint32_t node) const {
  std::string name;
  for (const Piece& piece : pieces_) {
    if (piece.part == Part::kText) {
      name += piece.text;
      continue;
    }
    const std::string number = std::to_string(piece.part == Part::kLeaf ? leaf : node);
    name.append(piece.width > number.size() ? piece.width - number.size() : 0, '0');
    name += number;
  }
  return name;
}

}  // namespace tide
