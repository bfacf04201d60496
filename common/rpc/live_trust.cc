#include "common/rpc/live_trust.h"

#include <sys/stat.h>

#include "common/base/time.h"
#include "common/certificates/authority.h"
#include "common/digest/sha256.h"
#include "common/log/log.h"
#include "common/rpc/turn.h"

namespace tide::rpc {
namespace {

constexpr Duration kLookEvery = Duration::Seconds(1);
constexpr Duration kLogEvery = Duration::Seconds(1);
constexpr Duration kWarnEvery = Duration::Seconds(24 * 3600);
constexpr Duration kWarnBefore = Duration::Seconds(30 * 24 * 3600);

// Another text whenever a file of the trust was replaced or written.
std::string StampOf(const std::string& folder) {
  std::string stamp;
  for (const char* file : {certificates::kAuthorityFile, certificates::kRevocationsFile}) {
    struct stat info{};
    if (::stat((folder + "/" + file).c_str(), &info) != 0) {
      stamp += "-;";
      continue;
    }
    for (const auto part : {static_cast<int64_t>(info.st_ino),
                            static_cast<int64_t>(info.st_size),
                            static_cast<int64_t>(info.st_mtim.tv_sec),
                            static_cast<int64_t>(info.st_mtim.tv_nsec)}) {
      stamp += std::to_string(part) + ",";
    }
    stamp += ";";
  }
  return stamp;
}

}  // namespace

LiveTrust::LiveTrust(std::string folder, certificates::Trust trust, bool live)
    : folder_(std::move(folder)),
      live_(live),
      look_at_(MonotonicNanos() + kLookEvery.nanos()),
      warn_at_(MonotonicNanos()),
      trust_(std::make_shared<const certificates::Trust>(std::move(trust))),
      stamp_(StampOf(folder_)) {}

void LiveTrust::ReadAgainIfChanged() {
  const std::string stamp = StampOf(folder_);
  {
    const std::scoped_lock lock(mutex_);
    if (stamp == stamp_) {
      return;
    }
  }
  auto trust = certificates::Trust::FromFolder(folder_);
  const std::scoped_lock lock(mutex_);
  stamp_ = stamp;
  if (!trust) {
    log::Warning("Certificates cannot be read again, going on with those from before",
                 {{"Error", trust.error().message}});
    return;
  }
  trust_ = std::make_shared<const certificates::Trust>(*std::move(trust));
  ++readings_;
  known_.clear();
  log::Info("Certificates read again", {{"Folder", folder_}});
}

void LiveTrust::WarnOfExpiry() const {
  const Instant now = SystemNow();
  const auto own = certificates::OwnIdentity(folder_, now);
  if (!own) {
    log::Warning("Others will not take this program's certificate",
                 {{"Error", own.error().message}});
  } else if (own->ends < now + kWarnBefore) {
    log::Warning("This program's certificate ends soon; issue a new one with `tide admin ca issue`",
                 {{"Folder", folder_}, {"Ends", FormatRfc3339(own->ends)}});
  }
}

std::shared_ptr<const certificates::Trust> LiveTrust::Current() {
  if (live_ && IsTurn(look_at_, kLookEvery)) {
    ReadAgainIfChanged();
  }
  if (live_ && IsTurn(warn_at_, kWarnEvery)) {
    WarnOfExpiry();
  }
  const std::scoped_lock lock(mutex_);
  return trust_;
}

uint64_t LiveTrust::Readings() {
  (void)Current();
  const std::scoped_lock lock(mutex_);
  return readings_;
}

Result<certificates::Peer> LiveTrust::Verify(std::string_view chain, certificates::Side side) {
  return Current()->Verify(chain, side, SystemNow());
}

Result<certificates::Identity> LiveTrust::Recheck(std::string_view certificate) {
  const auto trust = Current();
  const std::string digest = Sha256Hex(certificate);
  {
    const std::scoped_lock lock(mutex_);
    const auto known = known_.find(digest);
    if (known != known_.end() && trust == trust_) {
      return known->second;
    }
  }
  const auto peer = trust->Recheck(certificate);
  const Result<certificates::Identity> identity =
      peer ? Result<certificates::Identity>(peer->identity) : std::unexpected(peer.error());
  const std::scoped_lock lock(mutex_);
  if (trust == trust_) {
    if (known_.size() >= kKnownMax) {
      known_.clear();
    }
    known_.insert_or_assign(digest, identity);
  }
  return identity;
}

void LiveTrust::LogRefused(std::string_view why) {
  if (!IsTurn(log_at_, kLogEvery)) {
    ++not_logged_;
    return;
  }
  log::Warning("A connection was refused", {{"Why", why}, {"NotLogged", not_logged_.exchange(0)}});
}

}  // namespace tide::rpc
