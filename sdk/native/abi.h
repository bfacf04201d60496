#pragma once
// libtide.so: what the SDK of any language calls. Plain C types, no exceptions, no state; any
// thread.

#ifdef __cplusplus
#include <cstdint>
extern "C" {
#else
#include <stdint.h>
#endif

// Names as C has them. NOLINTBEGIN(readability-identifier-naming)
#define TIDE_ABI_VERSION 5
#define TIDE_EXPORT __attribute__((visibility("default")))

// TIDE_ABI_VERSION of the library.
TIDE_EXPORT uint32_t tide_abi_version(void);

// Goes on from `crc`, 0 at the start; as zlib's crc32().
TIDE_EXPORT uint32_t tide_crc32(uint32_t crc, const void* data, uint64_t bytes);

struct tide_span {
  void* to;
  const void* from;
  uint64_t bytes;
};
// Copies `count` spans, which do not overlap, with `threads` threads, the caller's included.
TIDE_EXPORT void tide_copy(const struct tide_span* spans, uint64_t count, uint32_t threads);

// NVIDIA's driver, loaded from `library` (libcuda.so.1), for as long as the process lives.
// Returns 0 where there is none, or no device; `error` says why.
struct tide_message;
TIDE_EXPORT void* tide_cuda_open(const char* library, struct tide_message* error);

// Page-locks memory for copies from devices, and gives it back; any thread. device: an ordinal.
// Returns 0, or -1 where the driver refuses: copies into it are slower then.
TIDE_EXPORT int32_t tide_cuda_register(void* cuda, int32_t device, void* memory, uint64_t bytes);
TIDE_EXPORT int32_t tide_cuda_unregister(void* cuda, int32_t device, void* memory);

struct tide_device_span {
  void* to;
  uint64_t from;  // device address
  uint64_t bytes;
  uint64_t stream;  // CUstream: what is in it comes first
  int32_t device;
};
// Returns 0 once all have arrived; -1 where one did not, and `error` says why.
TIDE_EXPORT int32_t tide_cuda_copy(void* cuda,
                                   const struct tide_device_span* spans,
                                   uint64_t count,
                                   struct tide_message* error);

// Makes the pages of a mapped range present and writable. memory: on a page's border.
// Returns 0, or -1 where there is no memory for it.
TIDE_EXPORT int32_t tide_populate(void* memory, uint64_t bytes);

// Moves a staging slot's verdict (sdk/native/slot.h) from open to `verdict`.
// Returns 1, or 0 where it was settled before.   slot: the first byte of it.
TIDE_EXPORT int32_t tide_settle(void* slot, uint32_t verdict);

struct tide_file {
  const char* path;
  uint64_t bytes;
  const uint32_t* crc32;  // of each 16 MiB of it
};
// Runs of bytes at even distances: one dimension of their pattern.
struct tide_dim {
  uint64_t count;        // at least 1
  uint64_t from_stride;  // bytes from one to the next in the file, at least 1
  uint64_t to_stride;    // the same in memory
};
struct tide_piece {
  uint64_t file;                // index
  uint64_t offset;              // of the first run in the file
  uint64_t bytes;               // of each run
  void* to;                     // where the first run goes
  const struct tide_dim* dims;  // outermost first; none: one run
  uint64_t dim_count;
};
// Memory of the caller for a message.
struct tide_message {
  char* text;
  uint64_t bytes;
};
// How to load.
struct tide_loading {
  uint32_t threads;  // at least 1
  // For ranks of one node that load together (sdk/native/node_ring.h): what one has read, the
  // others copy. A path on a tmpfs, the same for all ranks of the node in this load and for nobody
  // else; null: this process alone.
  const char* ring;
  uint32_t ranks;
  uint32_t rank;  // from 0, of those on this node
};
// Reads all files once, past the page cache where the file system allows, compares every byte with
// the CRCs, and puts the pieces where they belong.
//   pieces: sorted by file and offset; the stretches from a piece's first run to its last one do
//     not overlap.
//   error: gets a terminated text, cut to its size, if the result is not TIDE_LOADED.
// Returns TIDE_LOADED; TIDE_DAMAGED where a file is missing, has another length or other bytes;
// TIDE_UNREADABLE where the system failed. Pieces may hold anything in the last two cases.
#define TIDE_LOADED 0
#define TIDE_DAMAGED 1
#define TIDE_UNREADABLE 2
TIDE_EXPORT int32_t tide_load(const struct tide_file* files,
                              uint64_t file_count,
                              const struct tide_piece* pieces,
                              uint64_t piece_count,
                              const struct tide_loading* how,
                              struct tide_message* error);

struct tide_section {
  uint64_t text;   // bytes
  uint64_t table;  // bytes
  uint64_t crc32;  // of both together
};
// Which rows of RANKS.bin to look for (sdk/native/sections.h).
struct tide_row_search {
  int32_t fd;  // of the file
  const struct tide_section* sections;
  uint64_t section_count;
  const uint64_t* dims;   // of each boxed tensor: how many it has
  const int64_t* wanted;  // of each: where its box begins in `boxes`; -1: not wanted
  uint64_t tensor_count;
  const int64_t* boxes;  // first and last + 1 in each dimension, by turns
  int64_t* rows;         // room for what is found: rank, tensor, offset and borders of each row
  uint64_t room;         // words
  uint64_t words;        // gets how many there are; beyond `room` nothing was written
};
// Reads every section, compares it with its CRC, and gives the rows that hold something of what is
// wanted. Returns as tide_load does.
TIDE_EXPORT int32_t tide_find_rows(struct tide_row_search* search, struct tide_message* error);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
