#pragma once
// What the program has registered: names, memory, and how values look in a manifest.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "sdk/cpp/api.h"

namespace tide::cpp {

// "F32", as safetensors has it; elements' bytes.
[[nodiscard]] std::string_view DtypeName(Dtype dtype);
[[nodiscard]] int64_t ItemBytes(Dtype dtype);
// By the name; 0 for one that this SDK has not.
[[nodiscard]] int64_t ItemBytesOf(std::string_view dtype_name);
[[nodiscard]] int64_t CountOf(const Tensor& tensor);
[[nodiscard]] inline int64_t BytesOf(const Tensor& tensor) {
  return CountOf(tensor) * ItemBytes(tensor.dtype);
}
// "[2,3]", as JSON and for people.
[[nodiscard]] std::string ShapeText(const std::vector<int64_t>& shape);

// A plain value's typed JSON (sdk/python/tide/checkpoint/typed.py), and back.
//   Errors: kInvalidArgument where the text is of another kind.
[[nodiscard]] std::string EncodeValue(const Value& value);
using Decoded = std::variant<int64_t, double, std::string, bool>;
[[nodiscard]] Result<Decoded> DecodeValue(std::string_view json, const Value& like);
void PutBack(const Value& value, Decoded&& decoded);

// Names are OBJECT or OBJECT.KEY; KEY may have dots.
[[nodiscard]] std::string_view ObjectOf(std::string_view name);

// Sorted by name in bytes, which is the order of Python's strings, too.
struct Objects {
  std::map<std::string, Tensor> replicated;
  std::map<std::string, Tensor> local;
  std::map<std::string, Value> global;
};

// Errors: kInvalidArgument for what is no name, and for a tensor without memory or with a shape
// that has no size.
[[nodiscard]] Status CheckName(const std::string& name);
[[nodiscard]] Status CheckTensor(const std::string& name, const Tensor& tensor);

// Errors: kInvalidArgument naming a string that JSON cannot hold: it is no UTF-8.
[[nodiscard]] Status CheckTexts(const Objects& objects);

// Errors: kInvalidArgument for a name that a tree cannot hold beside those of `group`.
template <typename Item>
[[nodiscard]] Status CheckFree(const std::string& name, const std::map<std::string, Item>& group) {
  for (const auto& [other, item] : group) {
    const bool is_leaf = other == ObjectOf(other) || name == ObjectOf(name);
    if (other == name || (is_leaf && ObjectOf(other) == ObjectOf(name))) {
      return Fail(ErrorCode::kInvalidArgument,
                  "\"" + name + "\" is given beside \"" + other + "\"; use another name for one");
    }
  }
  return {};
}

// The trees of one group: {"OBJECT": {"KEY": node}}. nodes: typed JSON by name.
[[nodiscard]] std::string TreesText(const std::map<std::string, std::string>& nodes);

// The node of a tensor that is stored as `stored_name`.
[[nodiscard]] std::string TensorNode(const std::string& stored_name, Dtype dtype);

}  // namespace tide::cpp
