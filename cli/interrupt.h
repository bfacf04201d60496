#pragma once
// Ctrl-C while the program only watches: it ends at once with 130 and says what goes on without it.

#include <string>

namespace tide::cli {

// From now on SIGINT prints `message` to stderr and ends the process with kExitInterrupted.
// Call it from the main thread before other threads exist; a later call replaces the message.
void OnInterruptSay(const std::string& message);

}  // namespace tide::cli
