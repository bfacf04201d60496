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
  explicit RankSockets(std::function<void(const std::string& key)> on_message);

  // The ranks of a task: their number, and the account of their processes.
  struct Ranks {
    uint32_t count = 0;
    uint32_t uid = 0;
  };
  // Listens on <folder>/agent.sock for them; replaces a socket left by an earlier agent.
  [[nodiscard]] Status Add(const std::string& key, const std::string& folder, Ranks ranks);
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

  const std::function<void(const std::string&)> on_message_;
  Fd epoll_;
  struct Listener {
    Fd fd;
    Ranks ranks;
    size_t connections = 0;
  };
  std::map<std::string, Listener> listeners_;  // by task
  std::map<int, Connection> connections_;      // by fd
};

}  // namespace tide::agent
