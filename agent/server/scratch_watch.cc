#include "agent/server/scratch_watch.h"

#include <algorithm>
#include <utility>

namespace tide::agent {
namespace {

constexpr int64_t kShare = 9;  // a look that took 1 s is followed by 9 s without one

}  // namespace

std::vector<OverLimit> FindOverLimit(const std::map<std::string, ScratchUse>& by_key,
                                     uint64_t limit) {
  std::map<std::string, uint64_t> of_user;
  std::map<std::string, std::string> largest;  // key, by user
  for (const auto& [key, use] : by_key) {
    of_user[use.user] += use.disk.bytes;
    std::string& most = largest.try_emplace(use.user, key).first->second;
    if (use.disk.bytes > by_key.at(most).disk.bytes) {
      most = key;
    }
  }
  std::vector<OverLimit> over;
  for (const auto& [key, use] : by_key) {
    if (use.disk.too_deep) {
      over.push_back({key,
                      "its scratch folder has more than " + std::to_string(kFolderDepthMax) +
                          " folders in each other, which cannot be counted"});
    }
  }
  for (const auto& [user, bytes] : of_user) {
    if (bytes > limit) {
      const std::string& key = largest.at(user);
      over.push_back({key,
                      "its scratch folder holds " + SizeText(by_key.at(key).disk.bytes) +
                          "; all of " + user + "'s tasks on a node may hold " + SizeText(limit) +
                          ", which whoever runs the nodes can raise (tide-agent --user-scratch)"});
    }
  }
  return over;
}

ScratchWatch::ScratchWatch(std::string folder, uint64_t limit, Over over, Duration every)
    : folder_(std::move(folder)),
      limit_(limit),
      over_(std::move(over)),
      every_(every),
      thread_([this] { Run(); }) {}

ScratchWatch::~ScratchWatch() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void ScratchWatch::Add(const std::string& key, const std::string& user) {
  const MutexLock lock(mutex_);
  users_[key] = user;
}

void ScratchWatch::Forget(const std::string& key) {
  const MutexLock lock(mutex_);
  users_.erase(key);
}

void ScratchWatch::Run() {
  int64_t next_ns = MonotonicNanos() + every_.nanos();
  while (true) {
    {
      const MutexLock lock(mutex_);
      for (int64_t now = MonotonicNanos(); !ending_ && now < next_ns; now = MonotonicNanos()) {
        changed_.WaitFor(mutex_, next_ns - now);
      }
      if (ending_) {
        return;
      }
    }
    const int64_t began = MonotonicNanos();
    Look();
    const int64_t ended = MonotonicNanos();
    next_ns = ended + std::max(every_.nanos(), (ended - began) * kShare);
  }
}

void ScratchWatch::Look() {
  std::map<std::string, std::string> users;
  {
    const MutexLock lock(mutex_);
    users = users_;
  }
  if (limit_ == 0) {
    return;
  }
  std::map<std::string, ScratchUse> uses;
  for (const auto& [key, user] : users) {
    uses[key] = {user, WalkFolder(folder_ + "/" + key)};
  }
  for (const OverLimit& each : FindOverLimit(uses, limit_)) {
    over_(each);
  }
}

}  // namespace tide::agent
