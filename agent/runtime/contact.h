#pragma once
// When the scheduler last answered this node: a lease on all its tasks. The agent keeps it in a
// file, so that a restarted agent knows for how long it was cut off, and so that a task's
// supervisor can end the task on time when the agent is dead or hangs. A task of a gang has a file
// of its own, with its witness.

#include <cstdint>
#include <optional>
#include <string>

#include "agent/core/contact.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::agent {

// What an agent wrote since the machine started, if anything.
//   now_ns: BootNanos(), here as in contacts.
[[nodiscard]] std::optional<Contact> ReadContact(const std::string& path, int64_t now_ns);
// Overwrites the file in place: once it is there, a full tmpfs does not keep the lease from being
// renewed. A reader at any moment finds the old or the new contact.
[[nodiscard]] Status WriteContact(const std::string& path, const Contact& contact);

}  // namespace tide::agent
