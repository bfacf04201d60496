#pragma once
// Which cluster this agent belongs to, and what tells its state folder from every other. An agent
// obeys the cluster that it joined and no other: a scheduler that was started on the wrong store
// knows none of its tasks, and would have them all ended.
// Thread rule: the loop's, after Open.

#include <string>

#include "common/base/result.h"

namespace tide::agent {

class Membership {
 public:
  // Reads what the folder holds; makes the folder's id where there is none.
  //   join_anew: forgets the cluster, for an agent that is to join another.
  //   Errors: kConflict: it is a copy of another agent's; those of files.
  [[nodiscard]] static Result<Membership> Open(std::string state_dir, bool join_anew);

  // Does the agent obey this cluster? The first one that it joins it keeps, on disk. "" is a
  // scheduler that names none: only an agent that has joined none obeys it.
  //   Errors: kConflict for another one; those of files.
  [[nodiscard]] Status Check(const std::string& cluster);

  [[nodiscard]] const std::string& cluster() const { return cluster_; }  // "" = none yet
  // The folder's id; a copy is refused.
  [[nodiscard]] const std::string& state_id() const { return state_id_; }
  [[nodiscard]] const std::string& machine_id() const { return machine_id_; }  // "" = not known

 private:
  std::string state_dir_;
  std::string cluster_;
  std::string state_id_;
  std::string machine_id_;
};

}  // namespace tide::agent
