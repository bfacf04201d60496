// ParseFaultRules: which keys a fault policy has.

#include <algorithm>
#include <array>
#include <utility>

#include "common/health/built_in_policy.h"
#include "common/health/cursor.h"
#include "common/health/fault_rules.h"
#include "common/spec/field_reader.h"
#include "common/spec/suggest.h"
#include "common/spec/yaml_tree.h"

namespace tide::health {

namespace {

constexpr yaml::DocumentKind kKind{"fault policy"};
constexpr FieldReader::Bounds kCode{1, 99'999};
constexpr size_t kTextMax = 200;
constexpr size_t kNameMax = 40;
constexpr size_t kListMax = 100;

constexpr std::array kActions = {FaultAction::kNone,
                                 FaultAction::kCount,
                                 FaultAction::kRestartJob,
                                 FaultAction::kDrainAfter,
                                 FaultAction::kDrainNow};

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kNameMax && std::ranges::all_of(text, [](char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
  });
}

}  // namespace

class FaultRulesReader {
 public:
  ParsedFaultRules Read(const yaml::TreeNode& root, const FaultRules& below) {
    const Value top{&root, ""};
    FaultRules rules;
    reader_.Map(top,
                {{"version", [this](const Value& value) { ReadVersion(value); }},
                 {"shadow", [&](const Value& value) { reader_.Flag(value, rules.shadow_); }},
                 {"causes", [&](const Value& value) { ReadCauses(value, rules.causes_); }},
                 {"rules", [&](const Value& value) { ReadRules(value, rules.rules_); }}});
    reader_.Require(top, {"version"});
    if (rules.causes_.empty()) {
      rules.causes_ = below.causes_;
    }
    rules.rules_.insert(rules.rules_.end(), below.rules_.begin(), below.rules_.end());
    return {std::move(rules), reader_.Take()};
  }

 private:
  void ReadVersion(const Value& value) {
    if (value.node->kind != yaml::Kind::kScalar || value.node->text != "1") {
      reader_.Add(value, "version must be 1: this Tide reads no other");
    }
  }

  void ReadCauses(const Value& value, std::vector<int32_t>& causes) {
    reader_.List(value, [&](const Value& item) {
      std::vector<int32_t> code;
      ReadCode(item, code);
      if (!code.empty() && std::ranges::find(causes, code[0]) != causes.end()) {
        reader_.Add(item, "Xid " + std::to_string(code[0]) + " has a place in this list already");
      }
      causes.insert(causes.end(), code.begin(), code.end());
    });
    CheckCount(value, causes.size());
  }

  void ReadRules(const Value& value, std::vector<FaultRule>& rules) {
    reader_.List(value, [&](const Value& item) {
      FaultRule rule;
      ReadRule(item, rule);
      rules.push_back(std::move(rule));
    });
    if (rules.size() > kFaultRulesMax) {
      reader_.Add(value, "rules has more than " + std::to_string(kFaultRulesMax) + " entries");
    }
  }

  void ReadRule(const Value& value, FaultRule& rule) {
    Judgement& judgement = rule.judgement;
    reader_.Map(value,
                {{"kind", [&](const Value& v) { ReadKind(v, rule.kind); }},
                 {"code", [&](const Value& v) { ReadCode(v, rule.codes); }},
                 {"codes",
                  [&](const Value& v) {
                    reader_.List(v, [&](const Value& item) { ReadCode(item, rule.codes); });
                  }},
                 {"says", [&](const Value& v) { ReadText(v, rule.says); }},
                 {"models", [&](const Value& v) { ReadTexts(v, rule.models); }},
                 {"meaning", [&](const Value& v) { ReadText(v, judgement.meaning); }},
                 {"action", [&](const Value& v) { ReadAction(v, judgement.action); }},
                 {"two_users", [&](const Value& v) { ReadAction(v, judgement.two_users); }},
                 {"covers", [&](const Value& v) { ReadNames(v, judgement.covers); }},
                 {"repair", [&](const Value& v) { ReadName(v, judgement.repair); }},
                 {"shadow", [&](const Value& v) { reader_.Flag(v, judgement.shadow); }}});
    const size_t mistakes = reader_.count();
    reader_.Require(value, {"kind", "meaning", "action"});
    if (reader_.count() > mistakes) {
      return;
    }
    const bool acts = std::max(judgement.action, judgement.two_users) > FaultAction::kCount;
    if (acts && !IsObserved(rule.kind) && !IsConcluded(rule.kind)) {
      reader_.Add(value,
                  std::string(FaultKindName(rule.kind)) +
                      " is of more than one node: its action is none or count");
    } else if (acts && judgement.covers.empty() && rule.kind != FaultKind::kFailedTest) {
      reader_.Add(
          value,
          "`covers` is missing: which validators prove it gone, before the node comes back?",
          "a name that no node has, such as [person], leaves it to `tide faults ack`");
    }
    if (!rule.codes.empty() && !HasCode(rule.kind)) {
      reader_.Add(value,
                  std::string(FaultKindName(rule.kind)) +
                      " has no codes: only xid and sxid have. Leave `codes` out");
    }
  }

  void ReadKind(const Value& value, FaultKind& kind) {
    std::vector<std::string_view> names;
    for (const auto& [each, name] : kFaultKindNames) {
      names.push_back(name);
    }
    Choose(value, "kind", names, [&](std::string_view name) { kind = *FindFaultKind(name); });
  }

  void ReadAction(const Value& value, FaultAction& action) {
    std::vector<std::string_view> names;
    for (const FaultAction each : kActions) {
      names.push_back(FaultActionName(each));
    }
    Choose(value, "action", names, [&](std::string_view name) {
      action = *std::ranges::find(kActions, name, FaultActionName);
    });
  }

  template <typename Take>
  void Choose(const Value& value,
              std::string_view key,
              const std::vector<std::string_view>& names,
              const Take& take) {
    std::string text;
    const size_t mistakes = reader_.count();
    reader_.Text(value, text);
    if (reader_.count() > mistakes) {
      return;
    }
    const auto name = std::ranges::find(names, text);
    if (name != names.end()) {
      take(*name);
      return;
    }
    std::string known;
    for (const std::string_view each : names) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    const std::string near = NearestWord(text, names);
    reader_.Add(value,
                std::string(key) + " \"" + text.substr(0, kNameMax) + "\" is none of " + known,
                near.empty() ? "" : "did you mean `" + near + "`?");
  }

  void ReadCode(const Value& value, std::vector<int32_t>& codes) {
    uint32_t code = 0;
    const size_t mistakes = reader_.count();
    reader_.Whole(value, kCode, code);
    if (reader_.count() == mistakes) {
      codes.push_back(static_cast<int32_t>(code));
    }
  }

  void ReadText(const Value& value, std::string& out) {
    reader_.Text(value, out);
    if (out.size() > kTextMax) {
      reader_.Add(value, "this text has more than " + std::to_string(kTextMax) + " bytes");
    }
  }

  void ReadTexts(const Value& value, std::vector<std::string>& out) {
    reader_.TextList(value, out);
    CheckCount(value, out.size());
  }

  void ReadName(const Value& value, std::string& out) {
    reader_.Text(value, out);
    CheckName(value, out);
  }

  void ReadNames(const Value& value, std::vector<std::string>& out) {
    reader_.TextList(value, out);
    CheckCount(value, out.size());
    for (const std::string& name : out) {
      CheckName(value, name);
    }
    std::ranges::sort(out);
    const auto twice = std::ranges::unique(out);
    out.erase(twice.begin(), twice.end());
  }

  void CheckName(const Value& value, const std::string& name) {
    if (!IsName(name)) {
      reader_.Add(value,
                  "\"" + name.substr(0, kNameMax) +
                      "\" is no name: lower-case letters, digits, - and _, at most " +
                      std::to_string(kNameMax));
    }
  }

  void CheckCount(const Value& value, size_t count) {
    if (count > kListMax) {
      reader_.Add(value, "this list has more than " + std::to_string(kListMax) + " entries");
    }
  }

  FieldReader reader_{"the fault policy"};
};

ParsedFaultRules ParseFaultRules(std::string_view text, const FaultRules& below) {
  yaml::Document document = yaml::Parse(text, kKind);
  if (document.root == nullptr) {
    return {below, std::move(document.findings)};
  }
  return FaultRulesReader().Read(*document.root, below);
}

Result<std::shared_ptr<const FaultRules>> FaultRulesFromText(std::string_view text,
                                                             const std::string& name) {
  ParsedFaultRules parsed = ParseFaultRules(text, *BuiltInFaultRules());
  if (!parsed.findings.empty()) {
    return std::unexpected(MistakesIn("fault policy", parsed.findings, name));
  }
  return std::make_shared<const FaultRules>(std::move(parsed.rules));
}

std::shared_ptr<const FaultRules> BuiltInFaultRules() {
  // A test reads it, so it holds no mistake.
  static const auto kRules =
      std::make_shared<const FaultRules>(ParseFaultRules(kBuiltInFaultPolicy, {}).rules);
  return kRules;
}

}  // namespace tide::health
