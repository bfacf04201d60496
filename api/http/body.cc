#include "api/http/body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tide::api {
namespace {

constexpr size_t kKeyShown = 40;
constexpr size_t kNumbersMax = 1000;

}  // namespace

Reply JsonReply(const Json& document, int status) {
  Reply reply;
  reply.status = status;
  reply.body = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

std::expected<Body, Problem> Body::Read(const Call& call,
                                        std::initializer_list<std::string_view> keys) {
  Body body;
  body.object_ = std::make_shared<const nlohmann::json>(
      nlohmann::json::parse(call.body.empty() ? "{}" : call.body, nullptr, false));
  if (!body.object_->is_object()) {
    return api::Refuse(ErrorCode::kInvalidArgument, "the body is not a JSON object");
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
