#pragma once
// The three kinds of log behind KmsgReader. Private to this folder.

#include <memory>
#include <string>

#include "agent/health/kmsg_reader.h"

namespace tide::health {

// `fd` is open and non-blocking. Position: "kmsg <boot id> <next sequence number>".
[[nodiscard]] Result<std::unique_ptr<LineSource>> OpenKmsgDevice(Fd fd,
                                                                 const std::string& position,
                                                                 const std::string& boot_id);

// Position: "file <device> <inode> <offset> <hash of the bytes before the offset>".
[[nodiscard]] Result<std::unique_ptr<LineSource>> OpenFileFollower(const std::string& path,
                                                                   const std::string& position);

// A FIFO has no past: its position is "fifo" and is ignored.
[[nodiscard]] Result<std::unique_ptr<LineSource>> OpenFifo(const std::string& path);

}  // namespace tide::health
