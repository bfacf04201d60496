#pragma once
// The listening side of joining: lets in the nodes below this one, and nobody else.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/fabric/join.h"
#include "agent/fabric/proof.h"

namespace tide::allreduce {

// Owned by the thread that calls Run.
class Gate {
 public:
  // expected: edges to nodes below.
  Gate(const JoinOptions& options,
       const std::vector<Edge>& expected,
       const Fd& listener,
       Halt& halt);

  // Takes connections until all expected ones are there. Whoever does not prove that it knows the
  // token within kPatience is closed, and so is the 65th that has not yet done so.
  //   Errors: kDeadlineExceeded; names an edge that is missing.
  [[nodiscard]] Status Run(int64_t deadline);

  // Returns the socket of an edge after Run.
  [[nodiscard]] Fd Take(const Edge& edge);

 private:
  struct Guest {
    Fd socket;
    Bytes32 challenge{};
    HelloBytes hello{};
    size_t got = 0;
    int64_t deadline = 0;
  };
  using Key = std::pair<uint32_t, uint32_t>;  // tree, node

  void AcceptAll();
  // Returns false when the guest is done with: let in, or sent away.
  [[nodiscard]] bool Hear(Guest& guest);
  [[nodiscard]] Answer Judge(const Hello& hello) const;

  const JoinOptions& options_;
  const Fd& listener_;
  Halt& halt_;
  const Bytes32 arguments_;
  std::vector<Guest> guests_;
  std::map<Key, Fd> missing_;  // the sockets are not there yet
  std::map<Key, Fd> joined_;
};

}  // namespace tide::allreduce
