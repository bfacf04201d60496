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

// By the members in which specs differ most; the others are compared.
uint64_t HashOf(const JobSpec& spec) {
  Fnv1a hash;
  hash.Add(spec.name);
  hash.Add(spec.project);
  hash.Add(spec.image);
  for (const std::string& word : spec.command) {
    hash.Add(word);
  }
  for (const auto& [key, value] : spec.env) {
    hash.Add(key);
    hash.Add(value);
  }
  hash.Add(spec.group);
  hash.Add(uint64_t{spec.nodes});
  hash.Add(uint64_t{spec.gpus_per_node});
  hash.Add(static_cast<uint64_t>(spec.priority));
  return hash.value();
}

SharedSpec SpecPool::Intern(SharedSpec spec, uint64_t hash) {
  const auto [first, last] = specs_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (it->second == spec) {
      return it->second;
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
