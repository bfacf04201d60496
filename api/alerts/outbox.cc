#include "api/alerts/outbox.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tide::api {

using nlohmann::json;

std::string Notice::Id() const {
  return key + "@" + std::to_string(alert.since.unix_nanos()) + (resolved ? "/end" : "/begin");
}

std::optional<Notice> Outbox::Due(Instant now) const {
  if (now < not_before_) {
    return std::nullopt;
  }
  for (const auto& [key, alert] : firing_) {
    const auto told = told_.find(key);
    if (told == told_.end() || told->second.since != alert.since) {
      return Notice{key, alert, false};
    }
  }
  for (const auto& [key, alert] : told_) {
    if (!firing_.contains(key)) {
      return Notice{key, alert, true};
    }
  }
  return std::nullopt;
}

void Outbox::Taken(const Notice& notice) {
  if (notice.resolved) {
    told_.erase(notice.key);
  } else {
    told_[notice.key] = notice.alert;
  }
  wait_ = kWaitMin;
  not_before_ = Instant();
}

void Outbox::Failed(Instant now) {
  not_before_ = now + wait_;
  wait_ = std::min(wait_ * 2, kWaitMax);
}

std::string Outbox::Save() const {
  json told = json::object();
  for (const auto& [key, alert] : told_) {
    told[key] = {{"summary", alert.summary},
                 {"node", alert.node},
                 {"fault", alert.fault},
                 {"since", alert.since.unix_nanos()}};
  }
  return json{{"version", 1}, {"told", std::move(told)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

Result<Outbox> Outbox::Load(std::string_view saved) {
  Outbox outbox;
  try {
    const json record = json::parse(saved);
    if (record.at("version") != 1) {
      return Fail(ErrorCode::kCorrupt, "it is of another release");
    }
    for (const auto& [key, alert] : record.at("told").items()) {
      outbox.told_[key] = {alert.at("summary").get<std::string>(),
                           alert.at("node").get<std::string>(),
                           alert.at("fault").get<uint64_t>(),
                           Instant::FromUnixNanos(alert.at("since").get<int64_t>())};
    }
  } catch (const json::exception& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  }
  return outbox;
}

}  // namespace tide::api
