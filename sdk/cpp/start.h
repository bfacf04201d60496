#pragma once
// What the ranks of one start agree on before the first step, through the folder that all of them
// see. Protocol and files: sdk/python/tide/checkpoint/start.py.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/base/result.h"

namespace tide::cpp {

struct Start {
  int64_t number = 0;      // of the starts that this folder has seen; later ones are larger
  std::string nonce;       // eight hexadecimal digits
  std::string checkpoint;  // name of what it resumes from; empty = nothing
  std::map<int64_t, int64_t>
      generations;  // the last one of each step saved under this nonce already
};

// One rank's part in the agreement.
struct StartRank {
  std::string folder;
  std::string start;    // name that the platform gave this start; empty = none
  std::string scratch;  // folder of this rank's task alone; empty = none
  int64_t rank = 0;
  int64_t world = 1;
};

// Returns what rank 0 decided. To be called by all ranks.
//   decide: called on rank 0 alone, with a nonce.   deadline_ns: CLOCK_MONOTONIC.
//   Errors: kDeadlineExceeded naming the ranks that did not come; kSystem.
[[nodiscard]] Result<Start> AgreeOnStart(const StartRank& self,
                                         const std::function<Result<Start>(std::string)>& decide,
                                         int64_t deadline_ns);

}  // namespace tide::cpp
