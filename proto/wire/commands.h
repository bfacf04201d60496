#pragma once
// Commands as messages: the core says which task; here its spec, peers and topology are added.

#include "proto/wire/topology.h"
#include "scheduler/core/model/command.h"
#include "scheduler/core/model/state.h"
#include "tide/v1/agent.pb.h"

namespace tide::wire {

[[nodiscard]] tide::v1::Command ToProto(const ClusterState& state,
                                        const Command& command,
                                        TopologyCache& topologies);

}  // namespace tide::wire
