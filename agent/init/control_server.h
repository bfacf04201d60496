#pragma once
// The control socket of a task (docs/rank-protocol.md section 3). Used by the supervisor's one
// thread; never waits for a client.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct ControlRequest {
  enum class Op {
    kStatus,
    kWatch,
    kSignal,  // value: signal
    kStop,    // value: grace in ms
    kKill,
  };
  Op op = Op::kStatus;
  int64_t value = 0;
};

class ControlServer {
 public:
  // Acts on a request and returns the line to answer, without newline.
  using Handler = std::function<std::string(const ControlRequest&)>;

  // Listens at control.sock in the current folder: a path there is never too long.
  [[nodiscard]] Status Listen();
  void AddTo(std::vector<pollfd>& fds) const;
  // Accepts, reads and answers whatever is ready.
  void Serve(const Handler& handler);
  // Sends `line` to each connection that asked to watch.
  void Broadcast(const std::string& line);

 private:
  struct Client {
    Fd fd;
    std::string in;
    std::string out;
    bool watching = false;
    bool closed = false;
  };

  void Accept();
  static void Read(Client& client);
  static void Answer(Client& client, const Handler& handler);
  static void Send(Client& client, const std::string& line);
  static void Flush(Client& client);

  Fd listener_;
  std::list<Client> clients_;
};

}  // namespace tide::agent
