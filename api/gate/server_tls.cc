#include "api/gate/server_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <utility>

#include "common/base/time.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kWarnBefore = 30 * kDay;

std::unexpected<Error> BadFiles(const std::string& what, const std::string& path) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return Fail(ErrorCode::kInvalidArgument, what + " " + path + ": " + reason.data());
}

int64_t ExpiryOf(const SSL_CTX* context) {
  tm broken_down = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context)), &broken_down);
  return ::timegm(&broken_down);
}

}  // namespace

void ServerTls::FreeContext::operator()(SSL_CTX* context) const {
  SSL_CTX_free(context);
}

Result<std::unique_ptr<ServerTls>> ServerTls::Open(const CertificateFiles& files,
                                                   std::chrono::milliseconds look) {
  std::unique_ptr<ServerTls> tls(new ServerTls(files));
  TIDE_TRY(tls->Read());
  tls->watcher_ = std::thread([raw = tls.get(), look] { raw->Watch(look); });
  return tls;
}

ServerTls::~ServerTls() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

SSL* ServerTls::NewConnection() const {
  const std::scoped_lock lock(mutex_);
  return SSL_new(context_.get());
}

auto ServerTls::Load(const CertificateFiles& files) -> Result<Context> {
  Context context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                       SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_num_tickets(context.get(), 0);  // a ticket for each idle connection is memory
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.chain.c_str()) != 1) {
    return BadFiles("cannot read the certificates of", files.chain);
  }
  // The key of another certificate is refused by this, too.
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return BadFiles("cannot use, with the certificate of " + files.chain + ", the key", files.key);
  }
  return context;
}

// Changes with the files.
std::string ServerTls::Stamp() const {
  std::string stamp;
  for (const std::string& path : {files_.chain, files_.key}) {
    struct stat info = {};
    ::stat(path.c_str(), &info);
    for (const int64_t each : {static_cast<int64_t>(info.st_ino),
                               static_cast<int64_t>(info.st_size),
                               static_cast<int64_t>(info.st_mtim.tv_sec),
                               static_cast<int64_t>(info.st_mtim.tv_nsec)}) {
      stamp += std::to_string(each) + " ";
    }
  }
  return stamp;
}

Status ServerTls::Read() {
  // First, so that a file that changes while it is read is read again.
  std::string stamp = Stamp();
  auto context = Load(files_);
  const std::scoped_lock lock(mutex_);
  stamp_ = std::move(stamp);
  if (!context) {
    return std::unexpected(context.error());
  }
  context_ = *std::move(context);
  expires_at_ = ExpiryOf(context_.get());
  return {};
}

void ServerTls::Watch(std::chrono::milliseconds look) {
  int64_t warn_at = 0;
  std::unique_lock lock(mutex_);
  do {
    const int64_t now = SystemNow().unix_nanos() / 1'000'000'000;
    if (expires_at_ - now < kWarnBefore && now >= warn_at) {
      warn_at = now + kDay;
      log::Warning("the HTTPS certificate expires soon, or has",
                   {{"file", files_.chain}, {"days_left", (expires_at_ - now) / kDay}});
    }
    const std::string before = stamp_;
    lock.unlock();
    if (Stamp() != before) {
      const Status read = Read();
      if (read) {
        warn_at = 0;
        log::Info("HTTPS certificate read again", {{"file", files_.chain}});
      } else {
        log::Warning("the HTTPS certificate of before is shown on: the new one is of no use",
                     {{"error", read.error().message}});
      }
    }
    lock.lock();
  } while (!changed_.wait_for(lock, look, [this] { return stopping_; }));
}

}  // namespace tide::api
