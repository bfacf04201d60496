#include "agent/runtime/mount_targets.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace tide::agent {
namespace {

constexpr int kLinksMax = 40;  // as the kernel follows at most

void PushFront(std::deque<std::string>& names, std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0 && path.substr(0, end) != ".") {
      parts.emplace_back(path.substr(0, end));
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  names.insert(names.begin(), parts.begin(), parts.end());
}

// Returns what the link at this path holds; nothing where there is no link.
std::optional<std::string> ReadLink(const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  return size < 0 ? std::nullopt
                  : std::optional(std::string(text.data(), static_cast<size_t>(size)));
}

// Returns where a path of the root leads, by its links, inside the root; nothing where they go
// round.
std::optional<std::string> Follow(const std::string& root, const std::string& path) {
  std::deque<std::string> names;
  PushFront(names, path);
  std::string at;
  for (int links = 0; !names.empty();) {
    const std::string name = names.front();
    names.pop_front();
    if (name == "..") {
      at.resize(at.empty() ? 0 : at.rfind('/'));
      continue;
    }
    const auto link = ReadLink(root + at + "/" + name);
    if (!link) {
      at += "/" + name;
      continue;
    }
    if (++links > kLinksMax) {
      return std::nullopt;
    }
    at = link->starts_with('/') ? "" : at;
    PushFront(names, *link);
  }
  return at.empty() ? "/" : at;
}

bool IsOfKernel(const std::string& path) {
  constexpr std::array kFolders = {"/proc", "/sys", "/dev"};
  return std::ranges::any_of(kFolders, [&](const char* folder) {
    return path == folder || path.starts_with(std::string(folder) + "/");
  });
}

}  // namespace

Status CheckMountTargets(const std::string& root, const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    const std::optional<std::string> leads_to = Follow(root, target);
    const bool sound =
        leads_to &&
        (IsOfKernel(target) ? *leads_to == target : !IsOfKernel(*leads_to) && *leads_to != "/");
    if (!sound) {
      return Fail(ErrorCode::kInvalidArgument,
                  "image: " + target + " is a link that leads to " + leads_to.value_or("itself") +
                      ", and Tide mounts there; use an image in which it is a folder or a file");
    }
  }
  return {};
}

std::vector<std::string> MountTargets(const std::string& config_json) {
  std::vector<std::string> targets;
  const auto config = nlohmann::json::parse(config_json);
  for (const auto& mount : config.at("mounts")) {
    targets.push_back(mount.at("destination").get<std::string>());
  }
  return targets;
}

}  // namespace tide::agent
