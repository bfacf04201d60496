#pragma once
// Writes the ranks' output to logs/rank-NNNNN.log and .idx from a thread of its own, so that a slow
// disk delays neither the ranks' exits nor the control socket.
//
// Threads: one owner calls everything; the writing thread is inside.
// Invariants:
// 1. The index records of a file follow each other without a gap and never name bytes that are not
//    in the log.
// 2. What could not be written is counted, and the count is written into the log as a line of
//    stream 2 as soon as the disk takes it.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

inline constexpr uint32_t kStdoutStream = 1;
inline constexpr uint32_t kStderrStream = 2;

class LogWriter {
 public:
  // Opens the files in `folder`, one pair for each number in `ranks`.
  [[nodiscard]] static Result<std::unique_ptr<LogWriter>> Open(const std::string& folder,
                                                               const std::vector<uint32_t>& ranks);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();

  // Starts the writing thread. Separate from Open, as no thread may exist across a fork.
  void Start();
  // False when the buffer is full: then leave the bytes in the pipe, or Drop them.
  [[nodiscard]] bool HasRoom();
  // Takes output of the `index`-th rank, read at `now` (unix ns).
  void Push(size_t index, uint32_t stream, std::string_view data, int64_t now);
  // Counts bytes that were thrown away because the disk did not follow.
  void Drop(size_t index, uint64_t bytes);
  // Writes what is left and ends the thread.
  void Finish();

 private:
  struct Chunk {
    size_t index = 0;
    uint32_t stream = 0;
    int64_t at = 0;
    std::string data;
  };
  struct File {
    Fd log;
    Fd index;
    uint64_t size = 0;     // of the log
    uint64_t indexed = 0;  // bytes that have a record
    uint64_t records = 0;
    uint64_t lost = 0;   // bytes not written since the last marker
    std::string reason;  // of the loss
  };

  LogWriter() = default;
  void Loop();
  void Write(const Chunk& chunk);
  static void WriteMarker(File& file, int64_t now);
  // Returns how many bytes the disk took.
  static size_t Append(File& file, std::string_view data);
  static void WriteRecord(File& file, int64_t now, uint32_t stream);

  std::vector<File> files_;  // of the writing thread once it runs
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<Chunk> queue_;
  size_t queued_bytes_ = 0;
  std::vector<uint64_t> dropped_;
  bool finishing_ = false;
};

}  // namespace tide::agent
