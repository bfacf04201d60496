#pragma once
// One edge of a tree: the connection between a node and the one above it. Up goes a sum, down the
// result, in frames of a block each. One thread may send while another receives.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "agent/fabric/halt.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::allreduce {

// Head of a frame. On the wire: its length in bytes after the length (4 bytes), iteration,
// chunk, block (4 bytes each), then the elements, all as little-endian.
struct FrameName {
  uint32_t iteration = 0;
  uint32_t chunk = 0;  // kBarrier: no elements, nodes begin together
  uint32_t tree = 0;
  uint32_t block = 0;
  bool operator==(const FrameName&) const = default;
};
inline constexpr uint32_t kBarrier = UINT32_MAX;

// Traffic of an edge in one direction.
struct LinkUse {
  uint64_t bytes = 0;  // elements only
  uint64_t frames = 0;
  int64_t nanos = 0;  // while something was being sent
};

struct Edge {
  uint32_t self = 0;
  uint32_t peer = 0;
  uint32_t tree = 0;
  bool to_parent = false;  // whether the peer is above
};

class Link {
 public:
  // `socket` must be non-blocking. timeout_ns: the longest without a byte moved.
  Link(Fd socket, const Edge& edge, Halt& halt, int64_t timeout_ns)
      : socket_(std::move(socket)), edge_(edge), halt_(halt), timeout_ns_(timeout_ns) {}

  // Errors: kUnavailable when the peer is gone, kDeadlineExceeded when it is silent, kCorrupt for
  // another frame than the one named; the message names the edge.
  [[nodiscard]] Status Send(const FrameName& name, std::span<const float> block);
  [[nodiscard]] Status Receive(const FrameName& name, std::span<float> block);

  [[nodiscard]] const Edge& edge() const { return edge_; }
  [[nodiscard]] const LinkUse& sent() const { return sent_; }
  void ResetUse() { sent_ = {}; }
  void PlantDelay(int64_t nanos) { delay_ns_ = nanos; }

 private:
  [[nodiscard]] std::unexpected<Error> Broken(bool sending,
                                              ErrorCode code,
                                              const std::string& why) const;
  [[nodiscard]] Status Await(bool sending) const;
  [[nodiscard]] Status ReceiveBytes(std::span<std::byte> bytes) const;
  void Delay() const;

  const Fd socket_;
  const Edge edge_;
  Halt& halt_;
  const int64_t timeout_ns_;
  int64_t delay_ns_ = 0;
  LinkUse sent_;  // the sending thread's
};

// "node 2 → node 0".
[[nodiscard]] std::string EdgeName(uint32_t from, uint32_t to);

}  // namespace tide::allreduce
