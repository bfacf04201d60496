#pragma once
// Between a client and a PostgreSQL server on a unix socket: forwards bytes, and breaks connections
// at a chosen moment.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <thread>

namespace tide::testing {

class PostgresProxy {
 public:
  // At the next COMMIT that a client sends:
  enum class Cut {
    kNone,
    kBeforeCommit,  // the server does not get it, and is left
    kAfterCommit,   // the server has answered it, the client does not get the answer
    kLateCommit,    // the client is cut off at once; the server gets it half a second later
  };

  // server: the folder of its socket.
  explicit PostgresProxy(const std::filesystem::path& server);
  ~PostgresProxy();
  PostgresProxy(const PostgresProxy&) = delete;
  PostgresProxy& operator=(const PostgresProxy&) = delete;

  [[nodiscard]] std::string Address(const std::string& database) const;

  void CutAtCommit(Cut cut) { cut_ = cut; }
  // Cuts every connection once so many further bytes, of both directions, have passed.
  void CutAfter(int64_t bytes) { bytes_left_ = bytes; }
  // Forwards nothing any more, as a network that drops packets.
  void SetHanging(bool hanging) { hanging_ = hanging; }
  [[nodiscard]] int cuts() const { return cuts_; }

 private:
  struct Link;
  void Run();
  void Accept();
  void Serve(Link& link);
  void FromClient(Link& link);
  void FromServer(Link& link);
  void Forward(int fd, std::string_view bytes);
  void DropClient(Link& link);
  bool OnMessage(Link& link, std::string_view message);

  std::filesystem::path server_;
  std::filesystem::path folder_;
  int listen_ = -1;
  std::list<std::unique_ptr<Link>> links_;
  std::atomic<Cut> cut_ = Cut::kNone;
  std::atomic<int64_t> bytes_left_ = -1;  // negative: no limit
  std::atomic<bool> hanging_ = false;
  std::atomic<int> cuts_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace tide::testing
