#pragma once
// Ethernet frames from one port of this node to another. They pass by routing, which would take a
// connection to an own address through memory alone: what leaves a port comes back by the network,
// or not at all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::validators {

struct Port {
  std::string name;
  Fd socket;      // for frames of this check only
  int index = 0;  // the kernel's number of it
  std::array<unsigned char, 6> address = {};
  size_t mtu = 0;
  bool has_carrier = false;
};

// Opens a port for frames.
//   Errors: kNotFound, kInvalidArgument (no Ethernet), kPermissionDenied (without CAP_NET_RAW),
//   kSystem.
[[nodiscard]] Result<Port> OpenPort(const std::string& name);

enum class FramePlant : uint8_t {
  kNone = 0,
  kFlip,  // one bit of one frame turned over as it is sent
  kMute,  // the first port sends nothing
};

// Frames of one direction and what became of them.
struct Passage {
  uint64_t sent = 0;
  uint64_t arrived = 0;  // each once, changed or not
  uint64_t changed = 0;
  uint64_t bytes = 0;  // of those that arrived
  int64_t nanos = 0;
  std::string first_change;  // "frame 7, byte 22"
};

// Sends windows of frames and takes them in again. Belongs to one thread.
class FrameSender {
 public:
  // run: tells frames of this run from those of others.
  explicit FrameSender(uint64_t run) : run_(run) {}

  void SetPlant(FramePlant plant) { plant_ = plant; }
  // Sends `count` frames and waits for them until none has come for `patience_ns`.
  //   Errors: kSystem when the port does not take frames.
  [[nodiscard]] Status Send(
      const Port& from, const Port& to, size_t count, int64_t patience_ns, Passage& passage);

 private:
  using Frame = std::vector<unsigned char>;

  [[nodiscard]] Status SendAll(const Port& from);
  void Receive(const Port& to, int64_t patience_ns, Passage& passage);
  void Take(const unsigned char* bytes, size_t size, Passage& passage);

  const uint64_t run_;
  FramePlant plant_ = FramePlant::kNone;
  uint32_t next_ = 0;  // number of the next frame
  std::vector<Frame> window_;
  std::vector<bool> here_;  // of the window
};

}  // namespace tide::validators
