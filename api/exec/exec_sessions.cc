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
constexpr auto kLookAtSessions = std::chrono::milliseconds(500);
// Why a command was ended, for its record.
constexpr const char* kMayNoMore = "who started it may not run it any more";
constexpr const char* kNobodyReads = "nobody read its output any more";

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
  if (own >= limits_.of_one_user) {
    return Fail(ErrorCode::kExhausted,
                user + " runs " + std::to_string(own) +
                    " commands in tasks, as many as one user may; end one, or have an operator of "
                    "this server raise that: `tide-api --user-exec`");
  }
  if (all >= limits_.sessions || sessions_.size() >= kKeptTimes * limits_.sessions) {
    return Fail(
        ErrorCode::kExhausted,
        "too many commands run through this server, of all users together; try again later");
  }
  Starting place;
  place.user = user;
  place.until = std::chrono::steady_clock::now() + limits_.start;
  return starting_.insert(starting_.end(), std::move(place));
}

Result<std::unique_ptr<ExecCall>> ExecSessions::Call(const AgentPlace& agent,
                                                     const v1::ExecStart& start,
                                                     const std::string& user) {
  TIDE_ASSIGN(const auto place, TakePlace(user));
  auto call = agents_.Exec(agent, start);
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

Result<std::string> ExecSessions::Start(const AgentPlace& agent,
                                        const v1::ExecStart& start,
                                        AuditRecord record,
                                        std::function<bool()> may) {
  // Before it runs: what cannot be recorded does not happen.
  record.event = "allowed";
  TIDE_TRY(audit_.Record(record));
  auto call = Call(agent, start, record.user);
  if (!call) {
    record.event = "failed";
    record.reason = call.error().message;
    TIDE_TRY(audit_.Record(record));
    return std::unexpected(call.error());
  }
  std::string name = RandomHex(kNameBytes);
  auto session =
      std::make_shared<ExecSession>(*std::move(call), std::move(record), audit_, std::move(may));
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
    std::vector<std::pair<std::shared_ptr<ExecSession>, const char*>> over;
    std::erase_if(sessions_, [&](const auto& entry) {
      const char* why = !entry.second->MayGoOn()                  ? kMayNoMore
                        : entry.second->IsForgotten(limits_.idle) ? kNobodyReads
                                                                  : nullptr;
      if (why != nullptr) {
        over.emplace_back(entry.second, why);
      }
      return why != nullptr;
    });
    lock.unlock();
    for (const auto& [session, why] : over) {
      session->Close(why);
    }
    over.clear();
    lock.lock();
    changed_.wait_for(lock, kLookAtSessions, [this] { return stopping_; });
  }
}

}  // namespace tide::api
