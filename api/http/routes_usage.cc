// Where the GPU time of jobs went.

#include <nlohmann/json.hpp>
#include <optional>

#include "api/http/body.h"
#include "api/http/routes.h"
#include "api/view/gpu_usage.h"
#include "api/view/json.h"

namespace tide::api {
namespace {

std::optional<UsageBy> ReadBy(const std::string& text) {
  if (text.empty() || text == "owner") {
    return UsageBy::kOwner;
  }
  if (text == "project") {
    return UsageBy::kProject;
  }
  return text == "user" ? std::optional(UsageBy::kUser) : std::nullopt;
}

Outcome ShowUsage(const App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto by = ReadBy(call.Query("by"));
  if (!by) {
    return Refuse(ErrorCode::kInvalidArgument, "by: owner, project or user");
  }
  const Instant now = SystemNow();
  HeldTime all;
  Json items = Json::array();
  for (const auto& [owner, held] : SumUsage(**view, *by, now)) {
    all.Add(held);
    items.push_back({{"project", *by == UsageBy::kUser ? Json() : Json(owner.first)},
                     {"user", *by == UsageBy::kProject ? Json() : Json(owner.second)},
                     {"gpu_seconds", Json::parse(GpuTimeJson(held))}});
  }
  return JsonReply({{"at", FormatRfc3339(now)},
                    {"gpu_seconds", Json::parse(GpuTimeJson(all))},
                    {"items", std::move(items)}});
}

}  // namespace

Routes UsageRoutes(App& app) {
  return {{"GET", "/v1/usage", Operation::kSeeJobs, [&app](const Call& call) {
             return ShowUsage(app, call);
           }}};
}

}  // namespace tide::api
