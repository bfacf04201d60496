#pragma once
// What a scheduler under measurement keeps its state in: new and empty for each case, on a disk,
// with full fsync. SQLite in a folder, or a database of a private PostgreSQL server on the same
// disk.

#include <filesystem>
#include <string>

#include "bench/bench.h"
#include "common/base/time.h"
#include "scheduler/core/model/state.h"

namespace tide::bench {

// A fresh folder on a real disk, removed with everything in it.
class BenchFolder {
 public:
  // Aborts where temporary files lie in memory: what is kept there is not durable.
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] bool IsInstalled(StoreKind kind);
// Measures on those that the run asks for. What this machine lacks is left out, which is said on
// stderr.
void OnEachStore(Run& run, void (*measure)(Run&, StoreKind));

// Made by the main thread: the server that it starts for the first database ends with the thread.
// That server is shared by all cases of the process: making one takes longer than most of them.
class BenchStore {
 public:
  explicit BenchStore(StoreKind kind);

  // For `tide-scheduler --store`.
  [[nodiscard]] const std::string& address() const { return address_; }
  // For what lies beside the store.
  [[nodiscard]] const BenchFolder& folder() const { return folder_; }

  // Writes a whole state, as a scheduler that then steps down.
  void Fill(const ClusterState& state, Instant now) const;

 private:
  BenchFolder folder_;
  std::string address_;
};

}  // namespace tide::bench
