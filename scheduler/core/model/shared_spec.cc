#include "scheduler/core/model/shared_spec.h"

#include <utility>

#include "common/base/fnv1a.h"

namespace tide {
namespace {

const std::shared_ptr<const JobSpec>& DefaultSpec() {
  static const auto kDefault = std::make_shared<const JobSpec>();
  return kDefault;
}

}  // namespace

SharedSpec::SharedSpec() : spec_(DefaultSpec()) {}

SharedSpec::SharedSpec(JobSpec spec) : spec_(std::make_shared<const JobSpec>(std::move(spec))) {}

// Names every member, so that a new one does not compile until somebody has added it: specs that
// differ in one alone are many where people submit a chain, or a sweep.
uint64_t HashOf(const JobSpec& spec) {
  const auto& [name,
               project,
               image,
               workdir,
               command,
               group,
               nodes,
               gpus_per_node,
               ranks_per_node,
               cpus_per_node,
               memory_bytes_per_node,
               disk_bytes_per_node,
               gpu_model,
               zone,
               priority,
               suspend_notice,
               suspend_signal,
               suspend_exit_ok_done,
               checkpoint_dir,
               checkpoint_every,
               retry_failure_max,
               retry_hardware_max,
               retry_backoff,
               max_runtime,
               start_timeout,
               env,
               labels,
               mounts,
               after,
               count,
               secrets,
               on_nan] = spec;
  Fnv1a hash;
  for (const std::string* text :
       {&name, &project, &image, &workdir, &group, &gpu_model, &zone, &checkpoint_dir}) {
    hash.Add(*text);
  }
  for (const auto* list : {&command, &secrets}) {
    hash.Add(uint64_t{list->size()});
    for (const std::string& each : *list) {
      hash.Add(each);
    }
  }
  for (const auto* pairs : {&env, &labels}) {
    hash.Add(uint64_t{pairs->size()});
    for (const auto& [key, value] : *pairs) {
      hash.Add(key);
      hash.Add(value);
    }
  }
  for (const MountSpec& mount : mounts) {
    hash.Add(mount.source);
    hash.Add(mount.target);
    hash.Add(uint64_t{mount.read_only ? 1U : 0U});
  }
  for (const Dependency& each : after) {
    hash.Add(each.job.value());
  }
  for (const uint64_t number : {uint64_t{nodes},
                                uint64_t{gpus_per_node},
                                uint64_t{ranks_per_node},
                                uint64_t{cpus_per_node},
                                memory_bytes_per_node,
                                disk_bytes_per_node,
                                uint64_t{retry_failure_max},
                                uint64_t{retry_hardware_max},
                                uint64_t{count},
                                uint64_t{suspend_exit_ok_done ? 1U : 0U},
                                static_cast<uint64_t>(on_nan)}) {
    hash.Add(number);
  }
  for (const int32_t number : {priority, suspend_signal}) {
    hash.Add(static_cast<uint64_t>(number));
  }
  for (const Duration span :
       {suspend_notice, checkpoint_every, retry_backoff, max_runtime, start_timeout}) {
    hash.Add(static_cast<uint64_t>(span.nanos()));
  }
  return hash.value();
}

SharedSpec SpecPool::Intern(SharedSpec spec, uint64_t hash) {
  constexpr size_t kAlikeMax = 8;  // of one hash: whoever makes more of them shares nothing
  size_t compared = 0;
  const auto [first, last] = specs_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (it->second == spec) {
      return it->second;
    }
    if (++compared == kAlikeMax) {
      return spec;
    }
  }
  specs_.emplace(hash, spec);
  if (specs_.size() >= drop_at_) {
    DropUnused();
  }
  return spec;
}

void SpecPool::DropUnused() {
  std::erase_if(specs_, [](const auto& each) { return each.second.IsLast(); });
  drop_at_ = 1000 + 2 * specs_.size();
}

}  // namespace tide
