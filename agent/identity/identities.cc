#include "agent/identity/identities.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>

#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr int kGroupsMax = 256;
constexpr size_t kUsersMax = 10'000;
constexpr Duration kRemembered = Duration::Minutes(1);
const Owner kNobody{65534, 65534, {}, ""};

// Leaves uid, gid, home and groups, a line each. Returns an errno, ENOENT where there is no
// account.
int AskNameService(const std::string& user, std::string& answer) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> memory{};
  const int error = ::getpwnam_r(user.c_str(), &entry, memory.data(), memory.size(), &found);
  if (found == nullptr) {
    return error == 0 || error == ESRCH || error == EBADF || error == EPERM ? ENOENT : error;
  }
  std::array<gid_t, kGroupsMax> groups{};
  int count = kGroupsMax;
  ::getgrouplist(user.c_str(), entry.pw_gid, groups.data(), &count);
  const std::string home = entry.pw_dir == nullptr ? "" : entry.pw_dir;
  std::ostringstream text;
  text << entry.pw_uid << '\n' << entry.pw_gid << '\n' << home << '\n';
  for (int i = 0; i < std::min(count, kGroupsMax); ++i) {
    text << groups.at(static_cast<size_t>(i)) << '\n';
  }
  answer = text.str();
  return 0;
}

Owner ParseAnswer(const std::string& answer) {
  Owner owner;
  std::istringstream lines(answer);
  lines >> owner.uid >> owner.gid;
  lines.ignore();
  std::getline(lines, owner.home);
  for (uint32_t group = 0; lines >> group;) {
    owner.groups.push_back(group);
  }
  return owner;
}

Status CheckPerson(const std::string& user, uint32_t uid, const std::string& node) {
  if (uid >= kLeastUid) {
    return {};
  }
  return Fail(ErrorCode::kPermissionDenied,
              user + " is user " + std::to_string(uid) + " on " + node +
                  ", one of the system: jobs run as people, whose uids begin at " +
                  std::to_string(kLeastUid));
}

}  // namespace

Result<Owner> Identities::Find(const JobUser& user, const std::string& node) {
  if (!by_user_) {
    return everybody_;
  }
  if (user.uid != 0) {
    TIDE_TRY(CheckPerson(user.name, user.uid, node));
    const uint32_t group = user.gids.empty() ? user.uid : user.gids.front();
    return Owner{user.uid, group, user.gids, ""};
  }
  auto account = FindByName(user.name, node);
  if (account || account.error().code != ErrorCode::kNotFound || !pool_ || user.number == 0) {
    return account;
  }
  if (user.number > pool_->high - pool_->low) {
    return Fail(ErrorCode::kNotFound,
                "user " + user.name + " is number " + std::to_string(user.number) + ", and " +
                    node + " has uids for " + std::to_string(pool_->high - pool_->low) +
                    " (--uid-pool of its agent)");
  }
  const uint32_t uid = pool_->low + static_cast<uint32_t>(user.number);
  return Owner{uid, uid, {}, ""};
}

Result<Owner> Identities::FindByName(const std::string& user, const std::string& node) {
  const int64_t now = MonotonicNanos();
  {
    const MutexLock lock(mutex_);
    if (const auto known = known_.find(user);
        known != known_.end() && known->second.until_ns > now) {
      return known->second.owner;
    }
  }
  // In a child: a name service that hangs must not stop the agent with it.
  std::string answer;
  const int error = AsOwner(
      kNobody,
      [&](std::string& text) { return AskNameService(user, text); },
      [](std::string&) { return 0; },
      answer);
  if (error == ENOENT) {
    return Fail(ErrorCode::kNotFound,
                "user " + user + " has no account on " + node +
                    ", as whom the job would run: `getent passwd " + user +
                    "` has to know one, or an admin names a uid: `tide user set " + user +
                    " --uid N`");
  }
  if (error != 0) {
    return Fail(
        ErrorCode::kUnavailable,
        FailErrno("the name service of " + node + " does not say who " + user + " is", error)
            .error()
            .message);
  }
  Owner owner = ParseAnswer(answer);
  TIDE_TRY(CheckPerson(user, owner.uid, node));
  const MutexLock lock(mutex_);
  if (known_.size() >= kUsersMax) {
    known_.clear();
  }
  known_[user] = {owner, now + kRemembered.nanos()};
  return owner;
}

}  // namespace tide::agent
