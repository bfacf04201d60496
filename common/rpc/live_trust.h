#pragma once
// Trust that is read again when its files change, and remembers who was recognised.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/certificates/trust.h"

namespace tide::rpc {

// Any thread.
class LiveTrust {
 public:
  // Without `live` its files are never looked at again.
  LiveTrust(std::string folder, certificates::Trust trust, bool live);

  // See certificates::Trust, by this machine's clock.
  [[nodiscard]] Result<certificates::Peer> Verify(std::string_view chain, certificates::Side side);
  [[nodiscard]] Result<certificates::Identity> Recheck(std::string_view certificate);
  [[nodiscard]] uint64_t Readings();
  // Logs whom a server refused, no more often than once a second: anybody can make it refuse.
  void LogRefused(std::string_view why);

 private:
  static constexpr size_t kKnownMax = 50'000;

  [[nodiscard]] std::shared_ptr<const certificates::Trust> Current();
  void ReadAgainIfChanged();
  void WarnOfExpiry() const;

  const std::string folder_;
  const bool live_;
  std::atomic<int64_t> look_at_;  // CLOCK_MONOTONIC, ns
  std::atomic<int64_t> warn_at_;
  std::atomic<int64_t> log_at_ = 0;
  std::atomic<uint64_t> not_logged_ = 0;
  std::mutex mutex_;
  std::shared_ptr<const certificates::Trust> trust_;
  uint64_t readings_ = 1;
  std::string stamp_;  // of the files that trust_ was read from
  std::map<std::string, Result<certificates::Identity>, std::less<>>
      known_;  // by digest of the certificate
};

}  // namespace tide::rpc
