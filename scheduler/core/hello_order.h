#pragma once
// Streams of one node overlap: an agent that dials anew may be heard before what its last stream,
// or the agent before it, had said. A Hello that is read late must not be believed: what it does
// not name would count as lost, and may run.

#include <cstdint>
#include <map>
#include <string>

namespace tide {

class HelloOrder {
 public:
  // False when this process has taken a newer Hello of the node.
  //   number: grows with each Hello of a node; 0 = an agent that does not number them: it is
  //   taken, and says nothing about the order of others.
  [[nodiscard]] bool Take(const std::string& node, uint64_t number) {
    if (number == 0) {
      return true;
    }
    uint64_t& newest = newest_[node];
    if (number <= newest) {
      return false;
    }
    newest = number;
    return true;
  }
  // The number to be above: a node that lost its disk and its clock must learn it. 0 = none.
  [[nodiscard]] uint64_t Newest(const std::string& node) const {
    const auto it = newest_.find(node);
    return it == newest_.end() ? 0 : it->second;
  }
  void Clear() { newest_.clear(); }

 private:
  std::map<std::string, uint64_t> newest_;
};

}  // namespace tide
