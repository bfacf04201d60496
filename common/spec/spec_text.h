#pragma once
// Job specs as text: one strict reader for YAML and JSON, and the writer that round-trips.
// The keys are those of docs/guide/job-spec.md.

#include <string>
#include <string_view>
#include <vector>

#include "common/spec/job_spec.h"

namespace tide {

struct ParsedSpec {
  JobSpec spec;
  std::vector<SpecFinding> findings;  // empty = `spec` is complete and valid
};

// Reads one YAML (or JSON) document. Never throws. Unknown and duplicate keys, wrong types, more
// than 100 anchors, several documents or more than 1 MiB of text are findings with their place.
[[nodiscard]] ParsedSpec ParseJobSpec(std::string_view text);

// The same spec as YAML with nested keys; ParseJobSpec gives it back. Defaults are left out.
[[nodiscard]] std::string FormatJobSpecYaml(const JobSpec& spec);
// As JSON, every key present: the `spec` of the API's job object.
[[nodiscard]] std::string FormatJobSpecJson(const JobSpec& spec);

}  // namespace tide
