#include "api/http/body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tide::api {
namespace {

constexpr size_t kKeyShown = 40;
constexpr size_t kNumbersMax = 1000;
constexpr int kDepthMax = 64;

// Returns how deep brackets stand in brackets; what is in texts does not count.
int DepthOf(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_text = !in_text;
    } else if (in_text) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

nlohmann::json ParseJson(const std::string& text) {
  if (DepthOf(text) > kDepthMax) {
    return nlohmann::json::value_t::discarded;
  }
  return nlohmann::json::parse(text.empty() ? "{}" : text, nullptr, /*allow_exceptions=*/false);
}

Reply JsonReply(const Json& document, int status) {
  Reply reply;
  reply.status = status;
  reply.body = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

std::expected<Body, Problem> Body::Read(const Call& call,
                                        std::initializer_list<std::string_view> keys) {
  Body body;
  body.object_ = std::make_shared<const nlohmann::json>(ParseJson(call.body));
  if (!body.object_->is_object()) {
    return api::Refuse(ErrorCode::kInvalidArgument, kNoObject);
  }
  for (const auto& [key, value] : body.object_->items()) {
    if (std::ranges::find(keys, std::string_view(key)) == keys.end()) {
      std::string known;
      for (const std::string_view each : keys) {
        known += (known.empty() ? "" : ", ") + std::string(each);
      }
      return api::Refuse(ErrorCode::kInvalidArgument,
                         "unknown key `" + key.substr(0, kKeyShown) + "`; there are " + known);
    }
  }
  return body;
}

void Body::Refuse(const char* key, std::string_view wanted) {
  if (!wrong_) {
    wrong_ = ToProblem(
        {ErrorCode::kInvalidArgument, "`" + std::string(key) + "` must be " + std::string(wanted)});
  }
}

std::optional<std::string> Body::Text(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) {
    return std::nullopt;
  }
  if (!found->is_string()) {
    Refuse(key, "a text");
    return std::nullopt;
  }
  return found->get<std::string>();
}

std::optional<bool> Body::Flag(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) {
    return std::nullopt;
  }
  if (!found->is_boolean()) {
    Refuse(key, "true or false");
    return std::nullopt;
  }
  return found->get<bool>();
}

std::optional<uint32_t> Body::Number(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) {
    return std::nullopt;
  }
  if (!found->is_number_unsigned() || found->get<uint64_t>() > UINT32_MAX) {
    Refuse(key, "a whole number from 0 on");
    return std::nullopt;
  }
  return found->get<uint32_t>();
}

std::vector<uint32_t> Body::Numbers(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) {
    return {};
  }
  std::vector<uint32_t> numbers;
  const bool is_list = found->is_array() && found->size() <= kNumbersMax;
  for (const auto& each : is_list ? *found : nlohmann::json::array()) {
    if (!each.is_number_unsigned() || each.get<uint64_t>() > UINT32_MAX) {
      Refuse(key, "a list of whole numbers");
      return {};
    }
    numbers.push_back(each.get<uint32_t>());
  }
  if (!is_list) {
    Refuse(key, "a list of whole numbers");
  }
  return numbers;
}

std::expected<void, Problem> Body::Finish() const {
  if (wrong_) {
    return std::unexpected(*wrong_);
  }
  return {};
}

}  // namespace tide::api
