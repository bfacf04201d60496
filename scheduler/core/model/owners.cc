#include "scheduler/core/model/owners.h"

namespace tide {

uint32_t Names::Add(const std::string& name) {
  const auto [it, fresh] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (fresh) {
    names_.push_back(name);
  }
  return it->second;
}

std::optional<uint32_t> Names::Find(const std::string& name) const {
  const auto it = numbers_.find(name);
  return it == numbers_.end() ? std::nullopt : std::optional(it->second);
}

uint32_t Owners::Add(const std::string& project, const std::string& user) {
  const Owner owner{projects_.Add(project), users_.Add(user)};
  const auto [it, fresh] = numbers_.try_emplace(owner, static_cast<uint32_t>(owners_.size()));
  if (fresh) {
    owners_.push_back(owner);
  }
  return it->second;
}

std::optional<uint32_t> Owners::Find(const std::string& project, const std::string& user) const {
  const auto project_number = projects_.Find(project);
  const auto user_number = users_.Find(user);
  if (!project_number || !user_number) {
    return std::nullopt;
  }
  const auto it = numbers_.find({*project_number, *user_number});
  return it == numbers_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace tide
