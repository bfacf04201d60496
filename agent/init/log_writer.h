#pragma once
// Writes the ranks' output to segments in logs/ (agent/runtime/log_segments.h) from a thread of its
// own, so that a slow disk delays neither the ranks' exits nor the control socket.
//
// Threads: one owner calls everything; the writing thread is inside.
// Invariants:
// 1. The index records of a file follow each other without a gap and never name bytes that are not
//    in the log.
// 2. What could not be written is counted, and the count is written into the log as a line of
//    stream 2 as soon as the disk takes it.
// 3. Where output is limited, the segments of a rank with their indexes take no more than that on
//    the disk, and one piece of output: the oldest go first, whole.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/runtime/log_segments.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

class LogWriter {
 public:
  // Goes on with the files in `folder` of each number in `ranks`; those of others are begun with
  // their first output.
  //   max_bytes: kept of each rank; 0 = everything.
  [[nodiscard]] static Result<std::unique_ptr<LogWriter>> Open(const std::string& folder,
                                                               const std::vector<uint32_t>& ranks,
                                                               uint64_t max_bytes = 0);
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
  struct Segment {
    LogSegment names;
    uint64_t bytes = 0;  // on the disk, log and index
  };
  struct File {
    uint32_t rank = 0;
    std::deque<Segment> segments;  // the last is written to
    Fd log;
    Fd index;
    uint64_t end = 0;      // offset past the last byte
    uint64_t indexed = 0;  // bytes below this have a record
    uint64_t records = 0;  // in the last segment's index
    uint64_t lost = 0;     // bytes not written since the last marker
    std::string reason;    // of the loss
  };

  LogWriter(std::string folder, uint64_t max_bytes);
  Status OpenFile(File& file);
  static Status FindEnd(File& file);
  // Makes the newest segment's files where they are not there yet.
  static void Begin(File& file);
  // Begins a segment where the last is long enough, and deletes the oldest that are too many.
  void Rotate(File& file, int64_t now);
  void Loop();
  void Write(const Chunk& chunk);
  static void WriteMarker(File& file, int64_t now);
  // Returns how many bytes the disk took.
  static size_t Append(File& file, std::string_view data);
  static void WriteRecord(File& file, int64_t now, uint32_t stream);

  const std::string folder_;
  const uint64_t max_bytes_;
  const uint64_t segment_bytes_;  // 0 = no limit
  std::vector<File> files_;       // of the writing thread once it runs
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
