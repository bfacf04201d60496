#pragma once
// How the programs of a measured cluster know each other: by certificates of an authority that
// lasts as long as this process, or, to see what TLS costs, by a secret alone.

#include <string>
#include <vector>

#include "common/rpc/security.h"

namespace tide::bench {

// Before the first of the others, or never.
void MeasureWithoutTls();

// Flags of tide-scheduler for it.
[[nodiscard]] std::vector<std::string> SchedulerSecurityFlags();
[[nodiscard]] const rpc::Security& ApiSecurity();
// Makes a certificate of the agent: once for each, as nothing of it is kept.
[[nodiscard]] rpc::Security AgentSecurity(const std::string& node);

}  // namespace tide::bench
