#pragma once
// Finds the nodes that spoil an all-reduce by testing groups again. Pure: names in, groups out.

#include <deque>
#include <set>
#include <string>
#include <vector>

namespace tide::cli {

// One failed all-reduce tells of a group, not of a node. A group that fails is halved, both halves
// are tested, and so on, down to three nodes at most; each of these is then tested with one node
// that was in a good group. Who fails beside a sound node is bad. Rounds: O(log nodes) while a few
// nodes are bad.
class FabricGroups {
 public:
  using Group = std::vector<std::string>;

  // nodes: 2 at least, none twice.
  explicit FabricGroups(Group nodes);

  // Returns groups that may be tested at the same time; none when all is known.
  [[nodiscard]] std::vector<Group> Next();
  // Tells how a group of Next() ended. Each must be told before the next round.
  void Note(const Group& group, bool good);

  // Nodes that failed beside a sound one, sorted.
  [[nodiscard]] const std::set<std::string>& bad() const { return bad_; }
  // Nodes that no sound one was there for, sorted.
  [[nodiscard]] const std::set<std::string>& unknown() const { return unknown_; }
  // Groups that failed though each of their nodes is sound: what lies between them.
  [[nodiscard]] std::vector<Group> between() const;

 private:
  std::deque<Group> groups_;          // to be tested
  std::deque<std::string> suspects_;  // to be tested beside a sound node
  std::vector<Group> failed_;
  std::set<std::string> good_;
  std::set<std::string> bad_;
  std::set<std::string> unknown_;
};

}  // namespace tide::cli
