#pragma once
// The Container Device Interface: files in which vendors say what a container needs for a device
// (https://github.com/cncf-tags/container-device-interface, SPEC.md). Here: device nodes,
// environment, mounts, groups and hooks. Files with intelRdt or netDevices are not understood.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/runtime/task_config.h"
#include "common/base/result.h"

namespace tide::agent {

// Of one device, or of several together.
struct CdiEdits {
  std::map<std::string, std::string> env;
  std::vector<DeviceNode> nodes;
  std::vector<MountConfig> mounts;
  std::vector<uint32_t> groups;
  std::vector<HookConfig> hooks;
  bool operator==(const CdiEdits&) const = default;
};

class Cdi {
 public:
  // Reads *.json and *.yaml of the folders that are there; a later folder goes before an
  // earlier one. A file that cannot be understood is left out as a whole, and named in problems().
  [[nodiscard]] static Cdi Read(const std::vector<std::string>& folders);

  // Whether there is a file for this kind, or one that may be for it and cannot be understood.
  [[nodiscard]] bool MayHave(const std::string& kind) const;
  [[nodiscard]] std::vector<std::string> problems() const;

  // What a container with these devices needs; what a file says for all of its devices comes once.
  //   names: as "0", of `kind` ("nvidia.com/gpu").
  // Errors: kUnavailable, with the name that is not there, those that are, and the problems; also
  // where a file of this kind cannot be understood, as it may be the newest.
  [[nodiscard]] Result<CdiEdits> Resolve(const std::string& kind,
                                         const std::vector<std::string>& names) const;

 private:
  struct Spec {
    CdiEdits common;
    std::map<std::string, CdiEdits> devices;
  };
  void ReadFile(const std::string& path);

  std::map<std::string, std::vector<Spec>> kinds_;  // the first goes before the next
  struct Problem {
    std::string text;
    std::string kind;  // "" = it could not be read either
  };
  std::vector<Problem> problems_;
};

}  // namespace tide::agent
