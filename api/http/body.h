#pragma once
// JSON as the body of an answer; and as that of a request: an object that is read by its keys,
// refused where one is unknown or of another kind.

#include <cstdint>
#include <expected>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/message.h"

namespace tide::api {

using Json = nlohmann::ordered_json;

// Returns what the text of a body says; an empty one is an empty object. Discarded where it is no
// JSON, or nested deeper than 64: each level costs more memory than its bytes.
inline constexpr const char* kNoObject = "the body is not a JSON object, or nested deeper than 64";
[[nodiscard]] nlohmann::json ParseJson(const std::string& text);

[[nodiscard]] Reply JsonReply(const Json& document, int status = 200);

class Body {
 public:
  // Errors: no object, or a key that is none of `keys`. An empty body is an empty object.
  [[nodiscard]] static std::expected<Body, Problem> Read(
      const Call& call, std::initializer_list<std::string_view> keys);

  // Nothing where the key is not there or null; the first of another kind is kept for Finish.
  [[nodiscard]] std::optional<std::string> Text(const char* key);
  [[nodiscard]] std::optional<bool> Flag(const char* key);
  [[nodiscard]] std::optional<uint32_t> Number(const char* key);
  [[nodiscard]] std::vector<uint32_t> Numbers(const char* key);
  // The first thing that was wrong.
  [[nodiscard]] std::expected<void, Problem> Finish() const;
  void Refuse(const char* key, std::string_view wanted);

 private:
  std::shared_ptr<const nlohmann::json> object_;  // set
  std::optional<Problem> wrong_;
};

}  // namespace tide::api
