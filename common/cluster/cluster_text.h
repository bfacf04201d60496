#pragma once
// Cluster files as text: one strict reader for YAML and JSON. The keys are those of
// configs/README.md.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/cluster/cluster_spec.h"
#include "common/spec/job_spec.h"

namespace tide {

struct ParsedCluster {
  ClusterSpec cluster;
  std::vector<SpecFinding> findings;  // empty = `cluster` is complete and valid
};

// Reads one document and names every mistake in it, with line and column: unknown, missing and
// duplicate keys, wrong types, names that repeat or do not exist, patterns that cannot be read,
// more than kClusterNodesMax nodes, more than 8 MiB. Never throws.
// Cost: O(text + nodes log nodes).
[[nodiscard]] ParsedCluster ParseClusterFile(std::string_view text);

// Reads a cluster file from disk, for programs that cannot go on without.
// Errors: kNotFound, kSystem, kInvalidArgument with one line per finding.
[[nodiscard]] Result<ClusterSpec> LoadClusterFile(const std::string& path);

}  // namespace tide
