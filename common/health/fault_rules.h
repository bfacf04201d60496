#pragma once
// Rules about faults: data, not code. configs/fault-policy.yaml is compiled in; a site's
// file may put rules before it (docs/guide/faults.md).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/health/fault_kind.h"
#include "common/spec/job_spec.h"

namespace tide::health {

enum class FaultAction : uint8_t {
  kNone = 0,        // kept as evidence
  kCount = 1,       // counted on its device; says something only when it repeats
  kRestartJob = 2,  // the job dies or must: restarted elsewhere, the GPU reset before its next job
  kDrainAfter = 3,  // out of service when the job has left
  kDrainNow = 4,    // out of service at once
};

// "none", "count", "restart_job", "drain_after", "drain_now".
[[nodiscard]] std::string_view FaultActionName(FaultAction action);

struct Judgement {
  std::string meaning;  // short English, for `tide faults`
  FaultAction action = FaultAction::kCount;
  // Action where jobs of two users met it on one device: then it is hardly their doing.
  FaultAction two_users = FaultAction::kNone;
  std::vector<std::string> covers;  // validators that prove together that it is gone
  std::string repair;               // hint: "reset_gpu", "reboot", "replace", …; "" = none known
  bool shadow = false;              // what would be done is only recorded
  bool operator==(const Judgement&) const = default;
};

// A fault as rules are matched with it.
struct FaultSight {
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;
  std::string_view detail;     // the driver's words
  std::string_view gpu_model;  // of the node; "" = not known
};

struct FaultRule {
  FaultKind kind = FaultKind::kXid;
  std::vector<int32_t> codes;       // empty = any
  std::string says;                 // whole words in the detail; "" = any
  std::vector<std::string> models;  // words of the GPU's name; empty = any
  Judgement judgement;
  bool operator==(const FaultRule&) const = default;
};

class FaultRules {
 public:
  // Returns what the first rule that fits says; where none does, that it is counted.
  [[nodiscard]] Judgement Judge(const FaultSight& fault) const;
  [[nodiscard]] const std::vector<FaultRule>& rules() const { return rules_; }
  // Returns the place of an Xid among the causes: of several on one GPU at once, the one with the
  // lowest is the cause, and the others came of it. Nothing for one that stands for itself.
  [[nodiscard]] std::optional<size_t> CausePlace(FaultKind kind, int32_t code) const;

 private:
  friend class FaultRulesReader;
  std::vector<FaultRule> rules_;  // in order
  std::vector<int32_t> causes_;   // Xids, the likeliest cause first
  bool shadow_ = false;           // nothing is done, whatever a rule says
};

inline constexpr size_t kFaultRulesMax = 2'000;

// Returns the rules of configs/fault-policy.yaml.
[[nodiscard]] std::shared_ptr<const FaultRules> BuiltInFaultRules();

struct ParsedFaultRules {
  FaultRules rules;
  std::vector<SpecFinding> findings;  // empty = `rules` is complete and valid
};

// Reads a file whose rules come before those of `below`. Names every mistake with line and column.
// Never throws.
[[nodiscard]] ParsedFaultRules ParseFaultRules(std::string_view text, const FaultRules& below);

// Reads the text of the file `name` over the built-in rules.
//   Errors: kInvalidArgument with a line for each mistake.
[[nodiscard]] Result<std::shared_ptr<const FaultRules>> FaultRulesFromText(std::string_view text,
                                                                           const std::string& name);

}  // namespace tide::health
