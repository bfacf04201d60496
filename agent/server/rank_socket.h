#pragma once
// The unix socket of each task on which its ranks talk to the agent (docs/rank-protocol.md section
// 2). Everything that decides is in the pages; a message is answered and makes the agent look at
// the pages at once instead of at its next scan.
//
// Threads: the agent's loop thread only.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

class RankSockets {
 public:
  // on_message: called with the task's key.
  RankSockets(uint32_t job_uid, std::function<void(const std::string& key)> on_message);

  // Listens on <folder>/agent.sock; replaces a socket left by an earlier agent.
  [[nodiscard]] Status Add(const std::string& key, const std::string& folder);
  void Remove(const std::string& key);

  [[nodiscard]] int fd() const { return epoll_.get(); }
  // Handles what is ready, without waiting.
  void Serve();

 private:
  struct Connection {
    Fd fd;
    std::string key;
    std::string input;
  };
  void Accept(int listener, const std::string& key);
  // False when the connection is over.
  bool Read(Connection& connection);
  [[nodiscard]] bool MayTalk(int fd) const;

  const uint32_t job_uid_;
  const std::function<void(const std::string&)> on_message_;
  Fd epoll_;
  std::map<std::string, Fd> listeners_;    // by task
  std::map<int, Connection> connections_;  // by fd
};

}  // namespace tide::agent
