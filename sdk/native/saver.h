#pragma once
// The saver: a process of its own beside one rank, which finishes what the rank has staged, also
// when the rank was killed meanwhile.
//
// Packets over a SOCK_SEQPACKET pair, text:
//   rank → saver  slot INDEX BYTES            with the memfd as ancillary data
//                 save ID INDEX DATA TICKET   lengths in bytes, see slot.h
//                 hurry NS                    saves under way wait for other ranks no longer than
//                                             this, CLOCK_MONOTONIC: their slots are needed
//                 skip ID, line feed, ticket  the rank does not save this step; tells the others
//                 start ID, line feed, ticket where and as whom the rank will save
//                 leave ID                    the rank is leaving, and begins no save any more
//   saver → rank  done ID BYTES WRITTEN TOTAL seconds
//                 failed ID ERRNO MESSAGE   0 = no error of the system
//                 over ID                   afterwards, when old checkpoints have been removed, too
// One save after the other is written; waiting for other ranks goes on beside that. A rank that
// ends without `leave` may have died before a save that the others have begun: its saver tells
// theirs.

#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::sdk {

// Serves until the rank has gone and every save is over.
//   socket: the saver's end.
//   locks: files that are made and locked (flock, exclusively) while a save is under way: who waits
//     for this rank's saves waits for them. They go afterwards. They hold the rank's host, pid and
//     start in clock ticks.
//   Errors: kSystem, kInvalidArgument for a packet that no rank sends.
[[nodiscard]] Status RunSaver(Fd socket, const std::vector<std::string>& locks);

}  // namespace tide::sdk
