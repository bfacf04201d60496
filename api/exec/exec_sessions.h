#pragma once
// The commands that people run inside tasks through this server, by their secret name. Ends those
// whose output nobody reads any more, and those of people who may run them no more.

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/exec/exec_session.h"

namespace tide::api {

class ExecSessions {
 public:
  struct Limits {
    size_t sessions = 64;
    size_t of_one_user = 16;
    std::chrono::milliseconds idle = std::chrono::seconds(60);
    std::chrono::milliseconds start = std::chrono::seconds(20);  // of an agent that does not answer
  };

  // Both must outlive this.
  ExecSessions(AgentAccess& agents, AuditLog& audit, Limits limits);
  ~ExecSessions();
  ExecSessions(const ExecSessions&) = delete;
  ExecSessions& operator=(const ExecSessions&) = delete;

  [[nodiscard]] AuditLog& audit() { return audit_; }

  // Starts a command and returns the session's name: 128 random bits. record: who and where; its
  // start or failure goes to the audit log before this returns.
  //   may: whether who started it still may, asked now and then; the command ends when not.
  // Errors: kExhausted, what the agent says, and kSystem when it cannot be recorded.
  [[nodiscard]] Result<std::string> Start(const AgentPlace& agent,
                                          const v1::ExecStart& start,
                                          AuditRecord record,
                                          std::function<bool()> may);
  // Null for one that does not exist, or is another user's.
  [[nodiscard]] std::shared_ptr<ExecSession> Find(const std::string& name, const std::string& user);
  // Ends it. False for one that Find does not find.
  [[nodiscard]] bool End(const std::string& name, const std::string& user);
  // Ends all; for a server that stops.
  void EndAll(const std::string& why);

 private:
  // What waits for an agent's first word.
  struct Starting {
    std::string user;
    std::chrono::steady_clock::time_point until;
    ExecCall* call = nullptr;  // none while it is being made
    bool given_up = false;
  };
  // Asks the agent, and waits for its first word.
  [[nodiscard]] Result<std::unique_ptr<ExecCall>> Call(const AgentPlace& agent,
                                                       const v1::ExecStart& start,
                                                       const std::string& user);
  [[nodiscard]] Result<std::list<Starting>::iterator> TakePlace(const std::string& user);
  void Look();  // for as long as there is this server
  void GiveUpSlowStarts();

  AgentAccess& agents_;
  AuditLog& audit_;
  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::list<Starting> starting_;
  std::map<std::string, std::shared_ptr<ExecSession>> sessions_;  // by sha256 of the name
  std::thread thread_;                                            // last: it uses the members above
};

}  // namespace tide::api
