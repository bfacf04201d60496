#pragma once
// A PostgreSQL server of this process's own: a fresh cluster in a temporary folder, reached by a
// unix socket there. It ends with the process, also when that is killed. Started by the main
// thread: the kernel ends it with the thread that started it.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tide::testing {

class PrivatePostgres {
 public:
  struct Options {
    bool durable = false;               // fsync, as a real server
    std::vector<std::string> settings;  // "max_connections=10"
  };
  // Is there a PostgreSQL to start?
  [[nodiscard]] static bool IsInstalled();
  // Aborts, saying what to install, where there is none.
  explicit PrivatePostgres(const Options& options);
  ~PrivatePostgres();
  PrivatePostgres(const PrivatePostgres&) = delete;
  PrivatePostgres& operator=(const PrivatePostgres&) = delete;

  // The one of this process, started when first asked for; not durable, hence quick.
  static PrivatePostgres& Shared();

  // "postgresql:host=… dbname=…"; user "tide" may do everything, and needs no password.
  [[nodiscard]] std::string Address(const std::string& database,
                                    const std::string& user = "tide") const;
  // A new database, its name.
  [[nodiscard]] std::string NewDatabase();
  // Runs statements as "tide".
  void Run(const std::string& database, const std::string& sql) const;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // kill -9, as far as data are concerned: nothing is flushed, no client is told.
  void Kill();
  // Starts it again and waits until it answers.
  void Start();
  // Stops and continues all its processes: connections stay, nobody answers.
  void Freeze() const;
  void Thaw() const;

  // A standby of this server that follows it, on the same settings.
  [[nodiscard]] std::unique_ptr<PrivatePostgres> MakeStandby() const;

  // Makes a folder the server's own: for tablespaces.
  void Give(const std::filesystem::path& folder) const;

 private:
  PrivatePostgres() = default;
  void MakeFolder();
  void RunProgram(std::vector<std::string> arguments) const;
  pid_t Spawn(std::vector<std::string> arguments) const;
  void SignalAll(int signal) const;

  std::filesystem::path folder_;
  std::string programs_;
  std::vector<std::string> settings_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  pid_t pid_ = -1;
  int databases_ = 0;
};

}  // namespace tide::testing
