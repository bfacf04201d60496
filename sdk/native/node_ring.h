#pragma once
// Chunks of data files that the ranks of one node hand on to each other, so that the file system is
// read once a node and not once a rank: rank r reads every chunk whose number leaves r, all copy.
//
// A file on a tmpfs that all of them map: a few slots for chunks, used over and over. A slot has
// one writer at a time, which owns it until it has ended; whoever copies looks afterwards whether
// the slot still held his chunk, and checks the CRC of what he copied. Nobody depends on another
// rank: who waits in vain for a chunk reads it himself. So a rank that dies, hangs or comes late
// costs time only.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::sdk {

// path: the same for all ranks of one node in one load, and for nobody else.
struct RingPlace {
  std::string path;
  uint32_t ranks = 1;
  uint32_t rank = 0;  // of those on this node
};

class NodeRing {
 public:
  // Makes the file, or joins the ranks that have made it.
  //   load: tells what is loaded from anything else, a hash of it.   chunks: of all files together.
  //   patience_ns: how long a rank without progress is waited for.
  //   Errors: kSystem, kConflict: the load goes on without a ring.
  [[nodiscard]] static Result<std::unique_ptr<NodeRing>> Join(const RingPlace& place,
                                                              uint64_t load,
                                                              uint64_t chunks,
                                                              int64_t patience_ns);
  ~NodeRing();
  NodeRing(const NodeRing&) = delete;
  NodeRing& operator=(const NodeRing&) = delete;

  [[nodiscard]] uint32_t ranks() const { return place_.ranks; }
  [[nodiscard]] bool IsMine(uint64_t chunk) const { return chunk % place_.ranks == place_.rank; }

  // Returns memory for a chunk of this rank, kChunkBytes long, once the others are done with what
  // was there. nullptr: the others have to do without this chunk, or the ring is closed.
  [[nodiscard]] char* Begin(uint64_t chunk);
  // Ends what Begin() gave memory for.   is_read: it holds the chunk now.
  void End(uint64_t chunk, bool is_read);

  // Waits for a chunk and calls `use` with its memory. False: it is not to be had, or was
  // overwritten meanwhile: what `use` did counts for nothing. To be called for the chunks in their
  // order, by one thread.
  [[nodiscard]] bool Take(uint64_t chunk, const std::function<void(char*)>& use);
  // Ends the waits in Begin(): this rank's load has failed. Any thread.
  void Close() { is_closed_ = true; }
  [[nodiscard]] bool is_closed() const { return is_closed_; }

 private:
  struct Header;
  struct Counter;  // one cache line

  NodeRing(RingPlace place, int64_t patience_ns, char* memory, size_t bytes, uint64_t slots);
  // Counts the chunks that a rank has taken, and one more; 0 = it is not here yet.
  [[nodiscard]] Counter& Progress(uint32_t rank) const;
  // Names the chunk in that slot, and whether it is being written; 0 = none.
  [[nodiscard]] Counter& Ready(uint64_t chunk) const;
  // Names the newest chunk of that slot that nobody can have.
  [[nodiscard]] Counter& Skipped(uint64_t chunk) const;
  [[nodiscard]] char* Data(uint64_t chunk) const;
  // Returns when this rank is given up. One that does not come at all is waited for once, not for
  // each of its chunks.
  [[nodiscard]] int64_t PatienceEnds(uint32_t rank) const;

  const RingPlace place_;
  const int64_t patience_ns_;
  char* const memory_;
  const size_t bytes_;
  const uint64_t slots_;
  const int64_t joined_ns_;
  std::atomic<bool> is_closed_ = false;
  // Ranks that were waited for in vain; by the reading threads and by the taking one.
  std::vector<std::atomic<bool>> silent_;
};

}  // namespace tide::sdk
