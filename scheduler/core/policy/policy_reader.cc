// ParsePolicyFile: which keys a policy file has and what each means.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/spec/field_reader.h"
#include "common/spec/span_text.h"
#include "common/spec/suggest.h"
#include "common/spec/yaml_tree.h"
#include "scheduler/core/model/open_incidents.h"
#include "scheduler/core/policy/job_class.h"
#include "scheduler/core/policy/policy_text.h"

namespace tide {
namespace {

constexpr yaml::DocumentKind kKind{"policy file", kPolicyMebibytesMax};
constexpr size_t kRowsMax = 10'000;  // projects, and quotas
constexpr FieldReader::Bounds kNodes{0, 100'000};
constexpr FieldReader::Bounds kWeight{1, 10'000};
constexpr FieldReader::Bounds kTax{1, 100'000};
constexpr FieldReader::Bounds kTurnRatio{2, 1000};
constexpr FieldReader::Bounds kFinishedJobs{100, 10'000'000};
constexpr FieldReader::Bounds kBreakerPercent{0, 100};
constexpr FieldReader::Bounds kBreakerLeast{0, 1000};
constexpr FieldReader::Bounds kLeafNodes{2, 1000};

constexpr Duration kDay = Duration::Minutes(24 * 60);

struct SpanBounds {
  Duration low;
  Duration high;
};
constexpr SpanBounds kHalfLife{Duration::Minutes(1), kDay * 365};
constexpr SpanBounds kRun{Duration(), kDay * 30};
constexpr SpanBounds kCost{Duration(), Duration::Minutes(24 * 60)};
constexpr SpanBounds kReview{Duration::Seconds(1), Duration::Minutes(60)};
constexpr SpanBounds kKeep{Duration::Minutes(60), kDay * 10'000};
constexpr SpanBounds kKeepFaults{kIncidentsKept, kDay * 10'000};
constexpr SpanBounds kFaultWindow{Duration::Seconds(1), kWithdrawalsKept};
constexpr SpanBounds kStart{Duration::Seconds(1), kDay};
constexpr SpanBounds kLeafWait{Duration(), Duration::Minutes(5)};
constexpr SpanBounds kReturnAfter{Duration(), Duration::Minutes(60)};
constexpr SpanBounds kTestEvery{Duration(), Duration::Minutes(30 * 24 * 60)};
constexpr SpanBounds kStallRestart{Duration(), Duration::Minutes(7 * 24 * 60)};
constexpr SpanBounds kAfter{Duration::Seconds(1), kDay * 10'000};

// A text of the file with its place.
struct Word {
  std::string text;
  Value value;
};

class PolicyReader {
 public:
  explicit PolicyReader(const Policy& policy) : policy_(policy) {}

  ParsedPolicy Read(const yaml::TreeNode& root) {
    const Value top{&root, ""};
    reader_.Map(top,
                {{"version", [this](const Value& value) { ReadVersion(value); }},
                 {"projects", [this](const Value& value) { ReadProjects(value); }},
                 {"quotas", [this](const Value& value) { ReadQuotas(value); }},
                 {"demotions", [this](const Value& value) { ReadDemotions(value); }},
                 {"sharing", [this](const Value& value) { ReadSharing(value); }},
                 {"retention", [this](const Value& value) { ReadRetention(value); }},
                 {"faults", [this](const Value& value) { ReadFaults(value); }},
                 SpanField("start_timeout", kStart, policy_.start_timeout)},
                {{"half_life", "sharing"},
                 {"minimum_run", "sharing"},
                 {"preemption_tax", "sharing"},
                 {"assumed_cost", "sharing"},
                 {"turn_ratio", "sharing"},
                 {"review", "sharing"},
                 {"keep", "retention"},
                 {"jobs", "retention"},
                 {"breaker_percent", "faults"},
                 {"breaker_least", "faults"},
                 {"breaker_window", "faults"},
                 {"leaf_nodes", "faults"},
                 {"leaf_window", "faults"},
                 {"leaf_wait", "faults"},
                 {"return_after", "faults"},
                 {"test_every", "faults"},
                 {"stall_restart", "faults"},
                 {"stall_restart_faulty", "faults"}});
    reader_.Require(top, {"version"});
    CheckProjectsUsed();
    if (reader_.count() == 0) {
      CheckTree();
    }
    return {std::move(policy_), reader_.Take()};
  }

 private:
  static bool IsThere(const Word& word) {
    return word.value.node != nullptr && word.value.node->kind == yaml::Kind::kScalar;
  }

  FieldReader::Field WordField(std::string_view key, Word& out) {
    return {key, [this, &out](const Value& value) {
              out.value = value;
              reader_.Text(value, out.text);
            }};
  }
  FieldReader::Field WholeField(std::string_view key, FieldReader::Bounds bounds, int64_t& out) {
    return {key, [this, bounds, &out](const Value& value) {
              auto number = static_cast<uint32_t>(out);
              reader_.Whole(value, bounds, number);
              out = number;
            }};
  }
  FieldReader::Field SpanField(std::string_view key, SpanBounds bounds, Duration& out) {
    return {key, [this, key, bounds, &out](const Value& value) {
              Duration span = out;
              const size_t mistakes = reader_.count();
              reader_.Span(value, span);
              if (reader_.count() > mistakes) {
                return;
              }
              if (span < bounds.low || span > bounds.high) {
                reader_.Add(value,
                            std::string(key) + " must be from " + FormatSpan(bounds.low) + " to " +
                                FormatSpan(bounds.high) + ", not " + value.node->text);
              } else {
                out = span;
              }
            }};
  }
  FieldReader::Field ClassField(std::string_view key, Word& word, std::optional<int32_t>& out) {
    return {key, [this, &word, &out](const Value& value) {
              word.value = value;
              reader_.Text(value, word.text);
              if (!IsThere(word)) {
                return;
              }
              const Result<int32_t> priority = ParsePriority(word.text);
              if (!priority) {
                reader_.Add(value, priority.error().message);
              } else if (*priority == kAutoPriority) {
                reader_.Add(value,
                            "auto is no class to bound: its jobs stand in one of the others");
              } else {
                out = *priority;
              }
            }};
  }

  void ReadVersion(const Value& value) {
    if (value.node->kind != yaml::Kind::kScalar || value.node->text != "1") {
      reader_.Add(value, "version must be 1: this Tide reads no other");
    }
  }

  // --- projects ------------------------------------------------------------------------------

  void ReadProjects(const Value& value) {
    policy_.projects.clear();
    reader_.Entries(value, [this](const Value& key, const Value& entry) {
      const std::string& name = key.node->text;
      ProjectPolicy project;
      Word parent;
      if (entry.node->kind != yaml::Kind::kNothing && entry.node->kind != yaml::Kind::kNull) {
        reader_.Map(entry,
                    {WordField("parent", parent),
                     WholeField("weight", kWeight, project.weight),
                     {"exec", [&](const Value& v) {
                        bool allowed = true;
                        reader_.Flag(v, allowed);
                        project.exec = allowed;
                      }}});
      }
      if (name.empty()) {
        reader_.Add(key, "a project's name is empty");
      }
      if (IsThere(parent)) {
        project.parent = parent.text;
        projects_used_.push_back(parent);
      }
      policy_.projects[name] = std::move(project);
      project_keys_.push_back(key);
    });
    CheckCount(value, "projects", project_keys_.size());
  }

  void CheckCount(const Value& value, const std::string& what, size_t count) {
    if (count > kRowsMax) {
      reader_.Add(value, what + " has more than " + std::to_string(kRowsMax) + " entries");
    }
  }

  // At the end: `projects` may stand below `quotas`.
  void CheckProjectsUsed() {
    std::vector<std::string_view> known;
    known.reserve(policy_.projects.size());
    for (const auto& [name, project] : policy_.projects) {
      known.push_back(name);
    }
    for (const Word& used : projects_used_) {
      if (policy_.projects.contains(used.text)) {
        continue;
      }
      const std::string near = NearestWord(used.text, known);
      reader_.Add(used.value,
                  "project \"" + used.text.substr(0, 80) + "\" is not described under `projects`",
                  near.empty() ? "" : "did you mean `" + near + "`?");
    }
  }

  // From every project the parents lead to the top, in few steps.
  void CheckTree() {
    std::set<std::string> in_circle;
    for (const Value& key : project_keys_) {
      std::string path = key.node->text;
      std::vector<std::string> seen = {path};
      std::string at = policy_.projects.at(path).parent;
      while (!at.empty() && std::ranges::find(seen, at) == seen.end() &&
             seen.size() <= kProjectDepthMax) {
        seen.push_back(at);
        at = policy_.projects.at(at).parent;
      }
      for (size_t i = 1; i < seen.size(); ++i) {
        path += " → " + seen[i];
      }
      if (!at.empty() && at == seen.front() && !in_circle.contains(at)) {
        in_circle.insert(seen.begin(), seen.end());
        reader_.Add(key,
                    "the parents of project " + at + " go round in a circle: " + path + " → " + at +
                        "; leave one `parent` out");
      } else if (seen.size() > kProjectDepthMax) {
        reader_.Add(key,
                    "project " + seen.front() + " lies more than " +
                        std::to_string(kProjectDepthMax) + " deep in the tree");
      }
    }
  }

  // --- quotas --------------------------------------------------------------------------------

  void ReadQuotas(const Value& value) {
    policy_.quotas.clear();
    reader_.List(value, [this](const Value& item) { ReadQuota(item); });
    CheckCount(value, "quotas", policy_.quotas.size());
  }

  void ReadQuota(const Value& value) {
    const size_t mistakes = reader_.count();
    QuotaRow row;
    Word project;
    Word user;
    Word group;
    Word priority;
    Word until;
    Value limit;
    Value borrow;
    bool unbounded = false;
    int64_t nodes = 0;
    int64_t most = 0;
    reader_.Map(value,
                {WordField("project", project),
                 WordField("user", user),
                 WordField("group", group),
                 ClassField("class", priority, row.priority),
                 WholeField("nodes", kNodes, nodes),
                 {"limit",
                  [&](const Value& v) {
                    limit = v;
                    WholeField("limit", kNodes, most).read(v);
                  }},
                 {"borrow",
                  [&](const Value& v) {
                    borrow = v;
                    reader_.Flag(v, unbounded);
                  }},
                 WordField("until", until)});
    reader_.Require(value, {"nodes"});
    if (IsThere(project)) {
      projects_used_.push_back(project);
    }
    if (reader_.count() > mistakes) {
      return;
    }
    if (IsThere(project) == IsThere(user)) {
      reader_.Add(value, "a quota is of a `project` or of a `user`: name one of the two");
      return;
    }
    if (limit.node != nullptr && unbounded) {
      reader_.Add(borrow, "`borrow: true` means no bound: leave it or `limit` out");
      return;
    }
    if (limit.node != nullptr && most < nodes) {
      reader_.Add(limit,
                  "limit must be at least nodes, " + std::to_string(nodes) + ", not " +
                      std::to_string(most));
      return;
    }
    row.subject = IsThere(user) ? QuotaRow::Subject::kUser : QuotaRow::Subject::kProject;
    row.name = IsThere(user) ? user.text : project.text;
    row.group = group.text;
    row.nodes = static_cast<uint32_t>(nodes);
    row.limit = row.nodes;
    if (limit.node != nullptr) {
      row.limit = static_cast<uint32_t>(most);
    } else if (unbounded) {
      row.limit.reset();
    }
    AddQuota(value, until, std::move(row));
  }

  void AddQuota(const Value& value, const Word& until, QuotaRow row) {
    if (IsThere(until)) {
      const std::optional<Instant> end = ParseRfc3339(until.text);
      if (!end) {
        reader_.Add(until.value,
                    "until must be a time in UTC such as 2026-12-31 or 2026-12-31T18:00:00Z, not " +
                        until.text.substr(0, 60));
        return;
      }
      row.until = *end;
    }
    const auto [first, fresh] = rows_.emplace(
        std::tuple(row.subject, row.name, row.group, row.priority, row.until), value.node->line);
    if (!fresh) {
      reader_.Add(value,
                  "a quota of the same " +
                      std::string(row.subject == QuotaRow::Subject::kUser ? "user" : "project") +
                      ", group, class and end is there already, in line " +
                      std::to_string(first->second));
      return;
    }
    policy_.quotas.push_back(std::move(row));
  }

  // --- demotions and sharing -----------------------------------------------------------------

  void ReadDemotions(const Value& value) {
    policy_.demotions.clear();
    reader_.List(value, [this](const Value& item) {
      const size_t mistakes = reader_.count();
      Word from_word;
      Word to_word;
      std::optional<int32_t> from;
      std::optional<int32_t> to;
      Duration after;
      reader_.Map(item,
                  {ClassField("from", from_word, from),
                   ClassField("to", to_word, to),
                   SpanField("after", kAfter, after)});
      reader_.Require(item, {"from", "to", "after"});
      if (reader_.count() > mistakes || !from || !to) {
        return;
      }
      if (*to >= *from) {
        reader_.Add(to_word.value,
                    "to must be a lower class than " + from_word.text + ", not " + to_word.text);
      } else if (!policy_.demotions.emplace(*from, Demotion{*to, after}).second) {
        reader_.Add(from_word.value, "jobs of class " + from_word.text + " are demoted already");
      }
    });
  }

  void ReadSharing(const Value& value) {
    reader_.Map(value,
                {SpanField("half_life", kHalfLife, policy_.share_half_life),
                 SpanField("minimum_run", kRun, policy_.minimum_run),
                 WholeField("turn_ratio", kTurnRatio, policy_.turn_ratio),
                 WholeField("preemption_tax", kTax, policy_.preemption_tax),
                 SpanField("assumed_cost", kCost, policy_.assumed_cost),
                 SpanField("review", kReview, policy_.review),
                 Retired("patience"),
                 Retired("gang_wait"),
                 Retired("overtaken_wait"),
                 Retired("margin"),
                 Retired("lead")});
    // A job is slowed down by half a day of waiting at most: what is older fades.
    constexpr Duration kMost = Duration::Minutes(2 * 60);
    if (policy_.minimum_run.millis() * (policy_.turn_ratio / 2) > kMost.millis()) {
      reader_.Add(value,
                  "with minimum_run " + FormatDuration(policy_.minimum_run) + " and turn_ratio " +
                      std::to_string(policy_.turn_ratio) +
                      " jobs would take no turns: half of turn_ratio times minimum_run is 2h00m at "
                      "most");
    }
  }

  // A rule that is gone: better no start than one without what somebody relies on.
  FieldReader::Field Retired(std::string_view key) {
    return {key, [this, key](const Value& value) {
              reader_.Add(value,
                          std::string(key) +
                              " has no meaning any more: turns go by how much jobs were slowed "
                              "down, see turn_ratio; remove the line");
            }};
  }

  // --- retention -----------------------------------------------------------------------------

  void ReadRetention(const Value& value) {
    int64_t jobs = policy_.finished_max;
    reader_.Map(value,
                {SpanField("keep", kKeep, policy_.keep_finished),
                 WholeField("jobs", kFinishedJobs, jobs),
                 SpanField("faults", kKeepFaults, policy_.keep_incidents)});
    policy_.finished_max = static_cast<uint32_t>(jobs);
  }

  // --- faults --------------------------------------------------------------------------------

  void ReadFaults(const Value& value) {
    FaultPolicy& faults = policy_.faults;
    int64_t percent = faults.breaker_percent;
    int64_t least = faults.breaker_least;
    int64_t leaf_nodes = faults.leaf_nodes;
    reader_.Map(value,
                {WholeField("breaker_percent", kBreakerPercent, percent),
                 WholeField("breaker_least", kBreakerLeast, least),
                 SpanField("breaker_window", kFaultWindow, faults.breaker_window),
                 WholeField("leaf_nodes", kLeafNodes, leaf_nodes),
                 SpanField("leaf_window", kFaultWindow, faults.leaf_window),
                 SpanField("leaf_wait", kLeafWait, faults.leaf_wait),
                 SpanField("return_after", kReturnAfter, faults.return_after),
                 SpanField("test_every", kTestEvery, faults.test_every),
                 SpanField("stall_restart", kStallRestart, faults.stall_restart),
                 SpanField("stall_restart_faulty", kStallRestart, faults.stall_restart_faulty)});
    faults.breaker_percent = static_cast<uint32_t>(percent);
    faults.breaker_least = static_cast<uint32_t>(least);
    faults.leaf_nodes = static_cast<uint32_t>(leaf_nodes);
  }

  Policy policy_;
  FieldReader reader_{"the policy file"};
  std::vector<Value> project_keys_;
  std::vector<Word> projects_used_;  // as parents and in quotas
  std::map<std::tuple<QuotaRow::Subject, std::string, std::string, std::optional<int32_t>, Instant>,
           int>
      rows_;  // and their lines
};

}  // namespace

ParsedPolicy ParsePolicyFile(std::string_view text, const Policy& policy) {
  yaml::Document document = yaml::Parse(text, kKind);
  if (document.root == nullptr) {
    return {policy, std::move(document.findings)};
  }
  return PolicyReader(policy).Read(*document.root);
}

std::vector<std::string> ProjectsWithoutExec(const Policy& policy) {
  std::vector<std::string> without;
  for (const auto& [name, project] : policy.projects) {
    const ProjectPolicy* at = &project;
    // The tree was checked; the bound is for policies that no file has made.
    for (int depth = 0; !at->exec && !at->parent.empty() && depth <= kProjectDepthMax; ++depth) {
      const auto parent = policy.projects.find(at->parent);
      if (parent == policy.projects.end()) {
        break;
      }
      at = &parent->second;
    }
    if (!at->exec.value_or(true)) {
      without.push_back(name);
    }
  }
  return without;
}

Result<Policy> PolicyFromText(std::string_view text,
                              const std::string& name,
                              const Policy& policy) {
  ParsedPolicy parsed = ParsePolicyFile(text, policy);
  if (!parsed.findings.empty()) {
    return std::unexpected(MistakesIn("policy file", parsed.findings, name));
  }
  return std::move(parsed.policy);
}

}  // namespace tide
