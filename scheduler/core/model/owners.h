#pragma once
// Numbers for names that are asked for all the time: users, projects, groups. A pass over ten
// thousand jobs compares numbers, not strings. A number is for one state only: it is given in the
// order in which names come, another one after a load, and nothing is decided by its size.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tide {

class Names {
 public:
  // Its number, a new one for a new name.
  uint32_t Add(const std::string& name);
  [[nodiscard]] std::optional<uint32_t> Find(const std::string& name) const;
  [[nodiscard]] uint32_t At(const std::string& name) const { return numbers_.at(name); }  // known
  [[nodiscard]] const std::string& operator[](uint32_t number) const { return names_[number]; }
  [[nodiscard]] size_t size() const { return names_.size(); }

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
};

// Who runs jobs: a user in a project.
class Owners {
 public:
  uint32_t Add(const std::string& project, const std::string& user);
  [[nodiscard]] std::optional<uint32_t> Find(const std::string& project,
                                             const std::string& user) const;
  // Of a job that was submitted.
  [[nodiscard]] uint32_t At(const std::string& project, const std::string& user) const {
    return numbers_.at({projects_.At(project), users_.At(user)});
  }
  [[nodiscard]] size_t size() const { return owners_.size(); }

  [[nodiscard]] uint32_t ProjectNumber(uint32_t owner) const { return owners_[owner].project; }
  [[nodiscard]] uint32_t UserNumber(uint32_t owner) const { return owners_[owner].user; }
  [[nodiscard]] const std::string& Project(uint32_t owner) const {
    return projects_[owners_[owner].project];
  }
  [[nodiscard]] const std::string& User(uint32_t owner) const {
    return users_[owners_[owner].user];
  }
  [[nodiscard]] const Names& projects() const { return projects_; }
  [[nodiscard]] const Names& users() const { return users_; }

 private:
  struct Owner {
    uint32_t project = 0;
    uint32_t user = 0;
    auto operator<=>(const Owner&) const = default;
  };
  Names projects_;
  Names users_;
  std::map<Owner, uint32_t> numbers_;
  std::vector<Owner> owners_;
};

}  // namespace tide
