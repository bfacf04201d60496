#include "agent/identity/mount_aliases.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "common/base/file.h"

namespace tide::agent {
namespace {

struct Mounted {
  std::string device;  // "major:minor"
  std::string root;    // the folder of the file system that is shown
  std::string point;   // where it is shown
};

// Reads a field, in which a blank, tab, newline and backslash are written as \ooo.
std::string Unescape(const std::string& field) {
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size()) {
      text += static_cast<char>(std::stoi(field.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

std::vector<Mounted> Parse(std::string_view mountinfo) {
  std::vector<Mounted> all;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number;
    Mounted one;
    if (fields >> number >> number >> one.device >> one.root >> one.point) {
      one.root = Unescape(one.root);
      one.point = Unescape(one.point);
      all.push_back(std::move(one));
    }
  }
  return all;
}

// Returns "/x" for "/a/x" below "/a", "" for "/a" itself; nothing for what is not below.
std::optional<std::string> Below(const std::string& path, const std::string& folder) {
  const std::string top = folder == "/" ? "" : folder;
  if (path != folder && !path.starts_with(top + "/")) {
    return std::nullopt;
  }
  return path == folder ? "" : path.substr(top.size());
}

std::string Join(const std::string& folder, const std::string& rest) {
  const std::string path = (folder == "/" ? "" : folder) + rest;
  return path.empty() ? "/" : path;
}

bool IsSameFile(const std::string& left, const std::string& right) {
  struct stat one{};
  struct stat other{};
  return ::stat(left.c_str(), &one) == 0 && ::stat(right.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Adds places that show a folder, or the file system that is mounted at it, other than itself.
void AddAliases(const std::vector<Mounted>& mounts,
                const std::string& folder,
                std::vector<MountAlias>& found) {
  // The last of the longest is on top.
  const Mounted* holder = nullptr;
  std::string on_disk;
  for (const Mounted& each : mounts) {
    const auto rest = Below(folder, each.point);
    if (rest && (holder == nullptr || each.point.size() >= holder->point.size())) {
      holder = &each;
      on_disk = Join(each.root, *rest);
    }
  }
  if (holder == nullptr) {
    return;
  }
  for (const Mounted& each : mounts) {
    if (each.device != holder->device) {
      continue;
    }
    MountAlias alias;
    if (const auto around = Below(on_disk, each.root)) {
      alias = {Join(each.point, *around), folder};
    } else if (const auto inside = Below(each.root, on_disk)) {
      alias = {each.point, Join(folder, *inside)};
    }
    if (!alias.path.empty() && std::ranges::find(found, alias) == found.end()) {
      found.push_back(std::move(alias));
    }
  }
}

}  // namespace

std::vector<MountAlias> FindAliases(std::string_view mountinfo,
                                    std::span<const std::string> folders) {
  const std::vector<Mounted> mounts = Parse(mountinfo);
  std::vector<MountAlias> found;
  for (const std::string& folder : folders) {
    AddAliases(mounts, folder, found);
    for (const Mounted& each : mounts) {
      if (each.point != folder && Below(each.point, folder)) {
        AddAliases(mounts, each.point, found);
      }
    }
  }
  std::erase_if(found, [&](const MountAlias& alias) {
    return std::ranges::any_of(
        folders, [&](const std::string& folder) { return Below(alias.path, folder).has_value(); });
  });
  return found;
}

Result<std::vector<std::string>> WithAliases(std::vector<std::string> folders) {
  TIDE_ASSIGN(const std::string mountinfo, ReadFile("/proc/thread-self/mountinfo"));
  std::vector<std::string> real;
  for (const std::string& folder : folders) {
    std::error_code missing;
    const auto path = std::filesystem::canonical(folder, missing);
    if (!missing) {
      real.push_back(path.string());
    }
  }
  for (MountAlias& alias : FindAliases(mountinfo, real)) {
    if (IsSameFile(alias.path, alias.shows) &&
        std::ranges::find(folders, alias.path) == folders.end()) {
      folders.push_back(std::move(alias.path));
    }
  }
  return folders;
}

}  // namespace tide::agent
