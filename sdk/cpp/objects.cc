#include "sdk/cpp/objects.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "sdk/cpp/text.h"
#include "sdk/native/json_text.h"

namespace tide::cpp {
namespace {

struct DtypeFacts {
  std::string_view name;
  int64_t bytes;
  bool in_numpy;
};
// In the order of Dtype.
constexpr std::array<DtypeFacts, 16> kDtypes = {{{"F64", 8, true},
                                                 {"F32", 4, true},
                                                 {"F16", 2, true},
                                                 {"BF16", 2, false},
                                                 {"C64", 8, true},
                                                 {"I64", 8, true},
                                                 {"I32", 4, true},
                                                 {"I16", 2, true},
                                                 {"I8", 1, true},
                                                 {"U64", 8, true},
                                                 {"U32", 4, true},
                                                 {"U16", 2, true},
                                                 {"U8", 1, true},
                                                 {"BOOL", 1, true},
                                                 {"F8_E4M3", 1, false},
                                                 {"F8_E5M2", 1, false}}};

const DtypeFacts& FactsOf(Dtype dtype) {
  return kDtypes.at(static_cast<size_t>(dtype));
}

// Python keeps larger integers apart, for readers whose numbers are doubles.
constexpr int64_t kExactInt = int64_t{1} << 53U;

bool IsText(const std::string& text) {
  return sdk::JsonString(sdk::JsonQuote(text)) == text;
}

std::string EncodeInteger(int64_t value) {
  if (value >= -kExactInt && value <= kExactInt) {
    return std::to_string(value);
  }
  std::array<char, 40> text{};
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::snprintf(text.data(),
                text.size(),
                R"({"$int":"%s0x%llx"})",
                value < 0 ? "-" : "",
                static_cast<unsigned long long>(size));
  return text.data();
}

std::string EncodeDouble(double value) {
  if (std::isfinite(value)) {
    return NumberText(value);
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(),
                text.size(),
                R"({"$float":"%016llx"})",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text.data();
}

// The text under the only key of {"$int": "…"} or {"$float": "…"}.
Result<std::string> Tagged(std::string_view json, std::string_view tag) {
  TIDE_ASSIGN(const std::string_view body, sdk::JsonMemberOf(json, tag));
  return sdk::JsonString(body);
}

template <typename Number>
bool Parse(std::string_view text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

Result<Decoded> DecodeInteger(std::string_view json) {
  if (!json.starts_with('{')) {
    TIDE_ASSIGN(const int64_t number, sdk::JsonInteger(json));
    return number;
  }
  TIDE_ASSIGN(const std::string text, Tagged(json, "$int"));
  std::string_view digits = text;
  const bool is_negative = digits.starts_with('-');
  digits.remove_prefix(is_negative ? 1 : 0);
  uint64_t size = 0;
  const uint64_t most = uint64_t{1} << 63U;
  if (!digits.starts_with("0x") || !Parse(digits.substr(2), size, 16) ||
      size > (is_negative ? most : most - 1)) {
    return Fail(ErrorCode::kInvalidArgument, text + " does not fit into 64 bits");
  }
  return static_cast<int64_t>(is_negative ? 0 - size : size);
}

Result<Decoded> DecodeDouble(std::string_view json) {
  if (json.starts_with('{')) {
    TIDE_ASSIGN(const std::string text, Tagged(json, "$float"));
    uint64_t bits = 0;
    if (!Parse(text, bits, 16)) {
      return Fail(ErrorCode::kCorrupt, text + " is no number");
    }
    return std::bit_cast<double>(bits);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), number);
  if (error != std::errc() || end != json.data() + json.size()) {
    return Fail(ErrorCode::kInvalidArgument, std::string(json) + " is no number");
  }
  return number;
}

Result<Decoded> DecodeBool(std::string_view json) {
  if (json != "true" && json != "false") {
    return Fail(ErrorCode::kInvalidArgument, std::string(json) + " is no bool");
  }
  return json == "true";
}

}  // namespace

std::string_view DtypeName(Dtype dtype) {
  return FactsOf(dtype).name;
}

int64_t ItemBytesOf(std::string_view dtype_name) {
  const auto* const found = std::ranges::find(kDtypes, dtype_name, &DtypeFacts::name);
  return found == kDtypes.end() ? 0 : found->bytes;
}

int64_t ItemBytes(Dtype dtype) {
  return FactsOf(dtype).bytes;
}

int64_t CountOf(const Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t side : tensor.shape) {
    count *= side;
  }
  return count;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t side : shape) {
    text += (text.size() == 1 ? "" : ",") + std::to_string(side);
  }
  return text + "]";
}

std::string EncodeValue(const Value& value) {
  if (const auto* const integer = std::get_if<int64_t*>(&value)) {
    return EncodeInteger(**integer);
  }
  if (const auto* const number = std::get_if<double*>(&value)) {
    return EncodeDouble(**number);
  }
  if (const auto* const text = std::get_if<std::string*>(&value)) {
    return sdk::JsonQuote(**text);
  }
  return *std::get<bool*>(value) ? "true" : "false";
}

Result<Decoded> DecodeValue(std::string_view json, const Value& like) {
  if (std::holds_alternative<int64_t*>(like)) {
    return DecodeInteger(json);
  }
  if (std::holds_alternative<double*>(like)) {
    return DecodeDouble(json);
  }
  if (std::holds_alternative<bool*>(like)) {
    return DecodeBool(json);
  }
  TIDE_ASSIGN(std::string text, sdk::JsonString(json));
  return text;
}

void PutBack(const Value& value, Decoded&& decoded) {
  std::visit(
      [&](auto* target) {
        *target = std::get<std::decay_t<decltype(*target)>>(std::move(decoded));
      },
      value);
}

std::string_view ObjectOf(std::string_view name) {
  return name.substr(0, name.find('.'));
}

Status CheckName(const std::string& name) {
  const std::string_view object = ObjectOf(name);
  const bool has_key = object.size() != name.size();
  const std::string_view key = std::string_view(name).substr(has_key ? object.size() + 1 : 0);
  if (object.empty() || key.empty() || key.starts_with('$') || object.starts_with('$') ||
      !IsText(name)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "\"" + name + "\" is no name; use OBJECT or OBJECT.KEY in UTF-8, neither beginning with $");
  }
  return {};
}

Status CheckTexts(const Objects& objects) {
  for (const auto& [name, value] : objects.global) {
    const auto* const text = std::get_if<std::string*>(&value);
    if (text != nullptr && !IsText(**text)) {
      return Fail(ErrorCode::kInvalidArgument, name + " is no UTF-8; give bytes as a tensor of U8");
    }
  }
  return {};
}

Status CheckTensor(const std::string& name, const Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t side : tensor.shape) {
    if (side < 0 || __builtin_mul_overflow(count, side, &count) ||
        count > std::numeric_limits<int64_t>::max() / ItemBytes(tensor.dtype)) {
      return Fail(ErrorCode::kInvalidArgument,
                  name + " has the shape " + ShapeText(tensor.shape) + "; give its sides");
    }
  }
  if (count > 0 && tensor.data == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, name + " has no memory; give the address of its data");
  }
  return {};
}

std::string TreesText(const std::map<std::string, std::string>& nodes) {
  std::string text = "{";
  std::string_view open;  // the object whose keys are being written
  for (const auto& [name, node] : nodes) {
    const std::string_view object = ObjectOf(name);
    const bool is_leaf = object.size() == name.size();
    if (object != open || is_leaf) {
      text.append(open.empty() ? "" : "}").append(text.size() == 1 ? "" : ",");
      text.append(sdk::JsonQuote(object)).append(is_leaf ? ":" : ":{");
      open = is_leaf ? "" : object;
    } else {
      text += ",";
    }
    if (!is_leaf) {
      text.append(sdk::JsonQuote(std::string_view(name).substr(object.size() + 1))).append(":");
    }
    text += node;
  }
  return text + (open.empty() ? "}" : "}}");
}

std::string TensorNode(const std::string& stored_name, Dtype dtype) {
  // numpy arrays where Python has numpy and it has the type; bytes with a dtype and shape
  // otherwise.
  return R"({"$tensor":)" + sdk::JsonQuote(stored_name) + R"(,"lib":")" +
         (FactsOf(dtype).in_numpy ? "numpy" : "torch") + "\"}";
}

}  // namespace tide::cpp
