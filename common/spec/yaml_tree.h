#pragma once
// A YAML (or JSON) document as a tree in which every node knows its place. Duplicate keys are
// kept, so that a reader can name both. Aliases share the node of their anchor.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/spec/job_spec.h"

namespace tide::yaml {

struct TreeNode;
using NodePtr = std::shared_ptr<const TreeNode>;

enum class Kind {
  kNothing,  // no value at all: `key:`
  kNull,     // written: `null` or `~`
  kScalar,
  kSequence,
  kMap,
};

struct TreeNode {
  Kind kind = Kind::kNothing;
  std::string text;     // of a scalar
  bool quoted = false;  // "…", '…' or a block: never a number or a boolean
  int line = 0;         // from 1
  int column = 0;       // from 1, in characters
  std::vector<NodePtr> items;
  std::vector<std::pair<NodePtr, NodePtr>> entries;  // key, value
};

struct Document {
  NodePtr root;                       // null where `findings` says why
  std::vector<SpecFinding> findings;  // syntax, several documents, size, anchors
};

// What is read: how messages call it, and how long it may be.
struct DocumentKind {
  std::string_view name = "spec";
  size_t mebibytes_max = 1;

  // The values of one list or group: 10,000 in a mebibyte, more where more may be read.
  [[nodiscard]] constexpr size_t items_max() const { return 10'000 * mebibytes_max; }
};

// Reads one document. Never throws.
// Limits: the kind's length, also after aliases are replaced, and items; twice as many brackets;
// 100 anchors and 100 aliases. Takes a time that grows with the length, on however few lines it
// stands.
[[nodiscard]] Document Parse(std::string_view text, const DocumentKind& kind = {});

}  // namespace tide::yaml
