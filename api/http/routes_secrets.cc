// Secrets of the caller. Values go in; nothing here gives one back.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "api/http/body.h"
#include "api/http/routes.h"

namespace tide::api {
namespace {

constexpr size_t kMaxValueBytes = size_t{64} << 10U;

// The value is the body as it is: text in JSON could not hold every value.
bool IsValueType(const std::string& header) {
  static constexpr std::array<std::string_view, 3> kTypes = {
      "", "application/octet-stream", "text/plain"};
  return std::ranges::find(kTypes, header.substr(0, header.find(';'))) != kTypes.end();
}

Json EntryJson(const v1::SecretEntry& entry) {
  return {{"name", entry.name()},
          {"bytes", entry.bytes()},
          {"changed_at", FormatRfc3339(Instant::FromUnixNanos(entry.changed_at()))}};
}

Outcome Set(App& app, const Call& call) {
  if (!IsValueType(call.Header("content-type"))) {
    return RefuseStatus(
        415,
        "unsupported_media_type",
        "send the value itself, as application/octet-stream, not " + call.Header("content-type"));
  }
  if (call.body.size() > kMaxValueBytes) {
    return RefuseStatus(413, "too_large", "the value of a secret may have up to 64 KiB");
  }
  v1::SetSecretRequest request;
  *request.mutable_caller() = call.Caller();
  request.set_name(call.Path("name"));
  request.set_value(call.body);
  const auto entry = app.scheduler.SetSecret(request);
  if (!entry) {
    return std::unexpected(ToProblem(entry.error()));
  }
  return JsonReply(EntryJson(*entry));
}

Outcome List(App& app, const Call& call) {
  v1::ListSecretsRequest request;
  *request.mutable_caller() = call.Caller();
  const auto found = app.scheduler.ListSecrets(request);
  if (!found) {
    return std::unexpected(ToProblem(found.error()));
  }
  Json items = Json::array();
  for (const v1::SecretEntry& entry : found->secrets()) {
    items.push_back(EntryJson(entry));
  }
  return JsonReply({{"items", std::move(items)}, {"next_cursor", nullptr}});
}

Outcome Remove(App& app, const Call& call) {
  v1::RemoveSecretRequest request;
  *request.mutable_caller() = call.Caller();
  request.set_name(call.Path("name"));
  if (const auto removed = app.scheduler.RemoveSecret(request); !removed) {
    return std::unexpected(ToProblem(removed.error()));
  }
  return JsonReply({{"name", call.Path("name")}});
}

}  // namespace

Routes SecretRoutes(App& app) {
  return {
      {"GET",
       "/v1/secrets",
       Operation::kUseSecrets,
       [&app](const Call& call) { return List(app, call); }},
      {"PUT",
       "/v1/secrets/{name}",
       Operation::kUseSecrets,
       [&app](const Call& call) { return Set(app, call); }},
      {"DELETE",
       "/v1/secrets/{name}",
       Operation::kUseSecrets,
       [&app](const Call& call) { return Remove(app, call); }},
  };
}

}  // namespace tide::api
