#include "api/alerts/outbox.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tide::api {

using nlohmann::json;

std::string Notice::Id() const {
  return key + "@" + std::to_string(alert.since.unix_nanos()) + (resolved ? "/end" : "/begin");
}

template <typename Visit>
void Outbox::VisitUntold(const Visit& visit) const {
  for (const auto& [key, alert] : firing_) {
    const auto told = told_.find(key);
    const bool known = told != told_.end() && told->second.since == alert.since;
    if (!known && visit(Notice{key, alert, false})) {
      return;
    }
  }
  for (const auto& [key, alert] : told_) {
    if (!firing_.contains(key) && visit(Notice{key, alert, true})) {
      return;
    }
  }
}

void Outbox::Take(Alerts firing) {
  firing_ = std::move(firing);
  std::set<std::string> untold;
  if (!aside_.empty()) {
    VisitUntold([&](const Notice& notice) {
      untold.insert(notice.Id());
      return false;
    });
  }
  std::erase_if(aside_, [&](const auto& entry) { return !untold.contains(entry.first); });
}

std::optional<Notice> Outbox::Due(Instant now) const {
  std::optional<Notice> due;
  if (now < not_before_) {
    return due;
  }
  VisitUntold([&](const Notice& notice) {
    const auto aside = aside_.empty() ? aside_.end() : aside_.find(notice.Id());
    if (aside == aside_.end() || now >= aside->second.not_before) {
      due = notice;
    }
    return due.has_value();
  });
  return due;
}

void Outbox::Answers() {
  wait_ = kWaitMin;
  not_before_ = Instant();
}

void Outbox::Taken(const Notice& notice) {
  if (notice.resolved) {
    told_.erase(notice.key);
  } else {
    told_[notice.key] = notice.alert;
  }
  aside_.erase(notice.Id());
  Answers();
}

void Outbox::Refused(const Notice& notice, Instant now) {
  Aside& aside = aside_[notice.Id()];
  aside.wait = aside.tries == 0 ? kAsideMin : std::min(aside.wait * 2, kAsideMax);
  aside.not_before = now + aside.wait;
  ++aside.tries;
  if (notice.resolved && aside.tries >= kEndTries) {
    told_.erase(notice.key);
    aside_.erase(notice.Id());
  }
  Answers();
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
