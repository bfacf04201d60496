#pragma once
// A folder of checkpoints as a start of the job finds it. sdk/python/tide/checkpoint/store.py.

#include <cstdint>
#include <map>
#include <string>

#include "common/base/result.h"

namespace tide::cpp {

// Where a start comes in a folder.
struct StartPlace {
  int64_t number = 1;  // above those of all others
  // The last generation of each step in its name, where its ranks were started again.
  std::map<int64_t, int64_t> generations;
};

// start: a nonce.   Errors: kSystem.
[[nodiscard]] Result<StartPlace> PlaceOf(const std::string& folder, const std::string& start);

// "00007": ranks in file names.
[[nodiscard]] std::string FiveDigits(int64_t number);

// A name no earlier start of the same attempt used: its file may already be part of a commit.
[[nodiscard]] std::string FreeName(const std::string& directory, int64_t rank);

// What the saver of `rank` locks while it is saving, where no agent fences one start from the next.
[[nodiscard]] std::string LockPath(const std::string& folder, int64_t rank);

// Waits for savers whose ranks have been killed: what they commit must be there for all ranks or
// for none. deadline_ns: CLOCK_MONOTONIC; who is still there then is named on stderr.
void AwaitOrphans(const std::string& folder, int64_t deadline_ns);

}  // namespace tide::cpp
