#include "agent/server/janitor.h"

#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDoomedPrefix = ".gone-";

}  // namespace

Janitor::Janitor(std::string folder) : folder_(std::move(folder)), thread_([this] { Run(); }) {}

Janitor::~Janitor() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Janitor::Discard(const std::string& name) {
  std::string doomed = name;
  if (!name.starts_with(kDoomedPrefix)) {
    doomed = std::string(kDoomedPrefix) + name;
    if (std::rename((folder_ + "/" + name).c_str(), (folder_ + "/" + doomed).c_str()) != 0) {
      return;  // there is none, or the task was here before and is being deleted
    }
  }
  {
    const MutexLock lock(mutex_);
    doomed_.push_back(folder_ + "/" + doomed);
  }
  changed_.NotifyAll();
}

void Janitor::DiscardAll(const std::function<bool(const std::string& name)>& keep) {
  std::vector<std::string> names;
  std::error_code ignored;  // no folder: nothing to delete
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    if (!keep(name)) {
      Discard(name);
    }
  }
}

void Janitor::Run() {
  while (true) {
    std::string path;
    {
      const MutexLock lock(mutex_);
      while (doomed_.empty() && !ending_) {
        changed_.WaitFor(mutex_, -1);
      }
      if (ending_) {
        return;
      }
      path = std::move(doomed_.front());
      doomed_.pop_front();
    }
    std::error_code ignored;  // the job's files may be odd; the next agent tries again
    fs::remove_all(path, ignored);
  }
}

}  // namespace tide::agent
