#pragma once
// The certificate that this server shows (TLS 1.3). Its files are looked at every second, and read
// again when they have changed: connections that are open keep theirs.

#include <openssl/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/result.h"

namespace tide::api {

struct CertificateFiles {
  std::string chain;  // PEM: the server's certificate, then those that vouch for it
  std::string key;    // PEM, without a password
};

class ServerTls {
 public:
  //   look: how often. Errors: kInvalidArgument: the files cannot be read, or do not fit together.
  [[nodiscard]] static Result<std::unique_ptr<ServerTls>> Open(
      const CertificateFiles& files, std::chrono::milliseconds look = std::chrono::seconds(1));
  ~ServerTls();
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  // Returns the state of a new connection, with the certificate of this moment. Any thread.
  [[nodiscard]] SSL* NewConnection() const;
  // Unix time, seconds. Any thread.
  [[nodiscard]] int64_t expires_at() const { return expires_at_; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const;
  };
  using Context = std::unique_ptr<SSL_CTX, FreeContext>;

  explicit ServerTls(CertificateFiles files) : files_(std::move(files)) {}
  [[nodiscard]] static Result<Context> Load(const CertificateFiles& files);
  [[nodiscard]] std::string Stamp() const;
  [[nodiscard]] Status Read();
  void Watch(std::chrono::milliseconds look);

  const CertificateFiles files_;
  std::atomic<int64_t> expires_at_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  Context context_;
  std::string stamp_;  // of the files that were read last, also in vain
  std::thread watcher_;
};

}  // namespace tide::api
