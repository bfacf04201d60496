#include "api/exec/exec_sessions.h"

#include <algorithm>
#include <utility>

#include "api/http/auth.h"
#include "common/digest/sha256.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

constexpr size_t kNameBytes = 16;
constexpr size_t kKeptTimes = 16;
constexpr auto kLookForForgotten = std::chrono::milliseconds(500);

}  // namespace

ExecSessions::ExecSessions(AgentAccess& agents, AuditLog& audit, Limits limits)
    : agents_(agents), audit_(audit), limits_(limits), thread_([this] { Look(); }) {}

ExecSessions::~ExecSessions() {
  EndAll("the API server stopped");
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

auto ExecSessions::TakePlace(const std::string& user) -> Result<std::list<Starting>::iterator> {
  const std::scoped_lock lock(mutex_);
  size_t all = starting_.size();
  auto own = static_cast<size_t>(std::ranges::count(starting_, user, &Starting::user));
  for (const auto& [name, session] : sessions_) {
    const bool running = session->running();
    all += running ? 1 : 0;
    own += running && session->user() == user ? 1 : 0;
  }
  // What has ended is kept for a moment, should its last output have to be said again.
  if (all >= limits_.sessions || own >= limits_.of_one_user ||
      sessions_.size() >= kKeptTimes * limits_.sessions) {
    return Fail(ErrorCode::kExhausted,
                "too many commands run through this server; end one and try again");
  }
  Starting place;
  place.user = user;
  place.until = std::chrono::steady_clock::now() + limits_.start;
  return starting_.insert(starting_.end(), std::move(place));
}

Result<std::unique_ptr<ExecCall>> ExecSessions::Call(const std::string& endpoint,
                                                     const v1::ExecStart& start,
                                                     const std::string& user) {
  TIDE_ASSIGN(const auto place, TakePlace(user));
  auto call = agents_.Exec(endpoint, start);
  {
    const std::scoped_lock lock(mutex_);
    place->call = call.get();
  }
  const auto first = call->Read();
  bool given_up = false;
  {
    const std::scoped_lock lock(mutex_);
    given_up = place->given_up;
    starting_.erase(place);
  }
  if (first && first->started()) {
    return call;
  }
  if (given_up) {
    return Fail(ErrorCode::kUnavailable, "the agent does not answer; try again");
  }
  TIDE_TRY(call->Finish());
  return Fail(ErrorCode::kUnavailable, "the agent did not start the command; try again");
}

Result<std::string> ExecSessions::Start(const std::string& endpoint,
                                        const v1::ExecStart& start,
                                        AuditRecord record) {
  // Before it runs: what cannot be recorded does not happen.
  record.event = "allowed";
  TIDE_TRY(audit_.Record(record));
  auto call = Call(endpoint, start, record.user);
  if (!call) {
    record.event = "failed";
    record.reason = call.error().message;
    TIDE_TRY(audit_.Record(record));
    return std::unexpected(call.error());
  }
  std::string name = RandomHex(kNameBytes);
  auto session = std::make_shared<ExecSession>(*std::move(call), std::move(record), audit_);
  const std::scoped_lock lock(mutex_);
  if (stopping_) {
    return Fail(ErrorCode::kUnavailable, "this server stops; try again");
  }
  sessions_.emplace(Sha256Hex(name), std::move(session));
  return name;
}

std::shared_ptr<ExecSession> ExecSessions::Find(const std::string& name, const std::string& user) {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(Sha256Hex(name));
  return found == sessions_.end() || found->second->user() != user ? nullptr : found->second;
}

bool ExecSessions::End(const std::string& name, const std::string& user) {
  const auto session = Find(name, user);
  if (session == nullptr) {
    return false;
  }
  session->Close("its user left");
  const std::scoped_lock lock(mutex_);
  sessions_.erase(Sha256Hex(name));
  return true;
}

void ExecSessions::EndAll(const std::string& why) {
  std::map<std::string, std::shared_ptr<ExecSession>> all;
  {
    const std::scoped_lock lock(mutex_);
    all.swap(sessions_);
  }
  for (const auto& [name, session] : all) {
    session->Close(why);
  }
}

void ExecSessions::GiveUpSlowStarts() {
  const auto now = std::chrono::steady_clock::now();
  for (Starting& place : starting_) {
    if (place.call != nullptr && place.until <= now && !std::exchange(place.given_up, true)) {
      place.call->Cancel();
    }
  }
}

void ExecSessions::Look() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    GiveUpSlowStarts();
    std::vector<std::shared_ptr<ExecSession>> forgotten;
    std::erase_if(sessions_, [&](const auto& entry) {
      if (entry.second->IsForgotten(limits_.idle)) {
        forgotten.push_back(entry.second);
        return true;
      }
      return false;
    });
    lock.unlock();
    for (const auto& session : forgotten) {
      session->Close("nobody read its output any more");
    }
    forgotten.clear();
    lock.lock();
    changed_.wait_for(lock, kLookForForgotten, [this] { return stopping_; });
  }
}

}  // namespace tide::api
