#include "common/health/fault_rules.h"

#include <algorithm>

#include "common/health/cursor.h"
#include "common/spec/gpu_model.h"

namespace tide::health {
namespace {

constexpr bool IsPartOfWord(char c) {
  return IsWord(c) || c == '-';
}

bool HasWords(std::string_view text, std::string_view words) {
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const size_t end = at + words.size();
    if ((at == 0 || !IsPartOfWord(text[at - 1])) &&
        (end == text.size() || !IsPartOfWord(text[end]))) {
      return true;
    }
  }
  return false;
}

bool Fits(const FaultRule& rule, const FaultSight& fault) {
  const auto names = [&](const std::string& model) { return IsModel(fault.gpu_model, model); };
  return rule.kind == fault.kind &&
         (rule.codes.empty() || std::ranges::find(rule.codes, fault.code) != rule.codes.end()) &&
         (rule.says.empty() || HasWords(fault.detail, rule.says)) &&
         (rule.models.empty() || std::ranges::any_of(rule.models, names));
}

}  // namespace

std::string_view FaultActionName(FaultAction action) {
  switch (action) {
    case FaultAction::kNone:
      return "none";
    case FaultAction::kCount:
      return "count";
    case FaultAction::kRestartJob:
      return "restart_job";
    case FaultAction::kDrainAfter:
      return "drain_after";
    case FaultAction::kDrainNow:
      return "drain_now";
  }
  return "count";
}

Judgement FaultRules::Judge(const FaultSight& fault) const {
  const auto rule =
      std::ranges::find_if(rules_, [&](const FaultRule& each) { return Fits(each, fault); });
  Judgement judgement;
  if (rule != rules_.end()) {
    judgement = rule->judgement;
  } else {
    judgement.meaning = "no rule knows it";
  }
  judgement.shadow = judgement.shadow || shadow_;
  return judgement;
}

std::optional<size_t> FaultRules::CausePlace(FaultKind kind, int32_t code) const {
  const auto found = std::ranges::find(causes_, code);
  if (kind != FaultKind::kXid || found == causes_.end()) {
    return std::nullopt;
  }
  return static_cast<size_t>(found - causes_.begin());
}

}  // namespace tide::health
