#include "common/health/fault_rules.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "common/health/built_in_policy.h"
#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

Judgement Judge(const KernelFault& fault) {
  return BuiltInFaultRules()->Judge({fault.kind, fault.code, fault.detail, ""});
}

Judgement JudgeXid(int32_t code) {
  return BuiltInFaultRules()->Judge({FaultKind::kXid, code, "", ""});
}

FaultAction ActionOf(std::string_view line) {
  const auto fault = ParseKernelLine(line);
  REQUIRE(fault);
  return Judge(*fault).action;
}

// Messages of the mistakes in a file of one rule.
std::string MistakesOf(const std::string& rule) {
  std::string text;
  for (const SpecFinding& finding :
       ParseFaultRules("version: 1\nrules:\n  - " + rule + "\n", {}).findings) {
    text += finding.message + "\n" + finding.suggestion;
  }
  return text;
}

}  // namespace

TEST_CASE("the table says what is done") {
  CHECK(JudgeXid(79).action == FaultAction::kDrainNow);
  CHECK(JudgeXid(63).action == FaultAction::kDrainAfter);
  CHECK(JudgeXid(94).action == FaultAction::kRestartJob);
  CHECK(JudgeXid(45).action == FaultAction::kNone);
  for (const int32_t code : {13, 31, 43}) {
    CHECK(JudgeXid(code).action == FaultAction::kCount);
  }
  for (const int32_t code : {44, 46, 48, 54, 57, 58, 61, 62, 64, 74, 95, 109, 119, 120, 140}) {
    CAPTURE(code);
    CHECK(JudgeXid(code).action == FaultAction::kDrainNow);
  }
}

TEST_CASE("every code of the catalogue is known, every other one is counted") {
  for (const int32_t code :
       {8,   13,  31,  32,  37,  38,  43,  44,  45,  46,  48,  54,  57,  58,  61,  62,
        63,  64,  66,  67,  68,  69,  73,  74,  78,  79,  80,  92,  93,  94,  95,  109,
        110, 119, 120, 121, 122, 123, 124, 125, 136, 137, 140, 141, 142, 143, 144, 145,
        146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161,
        162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176}) {
    CAPTURE(code);
    CHECK(JudgeXid(code).meaning != "unknown Xid");
    CHECK(!JudgeXid(code).meaning.empty());
  }
  for (const int32_t code : {-1, 0, 1, 14, 99, 177, 100'000}) {
    CHECK(JudgeXid(code).meaning == "unknown Xid");
    CHECK(JudgeXid(code).action == FaultAction::kCount);
  }
}

TEST_CASE("the driver's own words beat the table") {
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x0)") ==
        FaultAction::kCount);
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, RLW_CTRL  Fatal   XC1 i0 Link -1 (0x0)") ==
        FaultAction::kDrainNow);
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, pid=1, name=Fatal, RLW Nonfatal XC1") ==
        FaultAction::kCount);
  const std::string changed = "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from ";
  CHECK(ActionOf(changed + "0x0 (None) to 0x4 (Drain and Reset)") == FaultAction::kDrainAfter);
  CHECK(ActionOf(changed + "0x0 (None) to 0x3 (Drain P2P)") == FaultAction::kDrainAfter);
  CHECK(ActionOf(changed + "0x0 (None) to 0x2 (Node Reboot)") == FaultAction::kDrainNow);
  CHECK(ActionOf(changed + "0x0 (None) to 0x1 (GPU Reset)") == FaultAction::kDrainNow);
  CHECK(ActionOf(changed + "0x1 (GPU Reset) to 0x0 (None)") == FaultAction::kNone);
  CHECK(ActionOf("NVRM: Xid (PCI:0009:01:00): 154, something else") == FaultAction::kCount);
}

TEST_CASE("a lost link drains its node when the job has left") {
  const auto fault = ParseKernelLine("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN");
  REQUIRE(fault);
  CHECK(Judge(*fault).action == FaultAction::kDrainAfter);
  CHECK(FaultKindName(fault->kind) == "link_down");
  CHECK(FaultActionName(FaultAction::kDrainAfter) == "drain_after");
}

TEST_CASE("the built-in policy has no mistake and a rule for every kind") {
  const ParsedFaultRules parsed = ParseFaultRules(kBuiltInFaultPolicy, {});
  for (const SpecFinding& finding : parsed.findings) {
    FAIL_CHECK(finding.line << ": " << finding.message);
  }
  for (const auto& [kind, name] : kFaultKindNames) {
    CAPTURE(name);
    const Judgement judgement = parsed.rules.Judge({kind, 0, "", ""});
    CHECK(judgement.meaning != "no rule knows it");
  }
}

TEST_CASE("what takes a node out of service names what proves it gone") {
  for (const FaultRule& rule : BuiltInFaultRules()->rules()) {
    CAPTURE(rule.judgement.meaning);
    const Judgement& judgement = rule.judgement;
    const bool acts = std::max(judgement.action, judgement.two_users) > FaultAction::kCount;
    // A failed test is proven gone by the validator that failed, whichever that is.
    CHECK((acts && rule.kind != FaultKind::kFailedTest) == !judgement.covers.empty());
  }
}

TEST_CASE("a site's rules come before the built-in ones, by model and by the driver's words") {
  const auto rules = FaultRulesFromText(R"(
version: 1
rules:
  - { kind: xid, code: 63, models: [A100], meaning: as one, action: drain_now, covers: [mine] }
  - { kind: xid, codes: [13, 31], says: Warp Exception, meaning: as two, action: none }
)",
                                        "site.yaml");
  REQUIRE(rules);
  const auto meaning = [&](int32_t code, std::string_view detail, std::string_view model) {
    return (*rules)->Judge({FaultKind::kXid, code, detail, model}).meaning;
  };
  CHECK(meaning(63, "", "NVIDIA A100-SXM4-80GB") == "as one");
  CHECK(meaning(63, "", "NVIDIA A1000") == "memory row to be remapped at the next reset");
  CHECK(meaning(63, "", "") == "memory row to be remapped at the next reset");
  CHECK(meaning(13, "Graphics SM Warp Exception on (GPC 1)", "") == "as two");
  CHECK(meaning(13, "Graphics Exception", "") ==
        "graphics or SM exception, mostly a bug of the job");
}

TEST_CASE("causes: the built-in order holds unless a file has its own") {
  const auto place = [](const FaultRules& rules, int32_t code) {
    return rules.CausePlace(FaultKind::kXid, code);
  };
  const FaultRules& built_in = *BuiltInFaultRules();
  constexpr std::array kOrder = {79, 95, 48, 140, 119, 120, 74, 149, 64, 94, 63, 13, 31, 43, 45};
  for (size_t i = 1; i < kOrder.size(); ++i) {
    CHECK(*place(built_in, kOrder[i - 1]) < *place(built_in, kOrder[i]));
  }
  CHECK_FALSE(place(built_in, 8));
  CHECK_FALSE(built_in.CausePlace(FaultKind::kSxid, 79));
  const auto own = FaultRulesFromText("version: 1\ncauses: [48, 79]\n", "own");
  REQUIRE(own);
  CHECK(place(**own, 79) == 1);
  CHECK_FALSE(place(**own, 95));
  CHECK(place(**FaultRulesFromText("version: 1\n", "none"), 79) == 0);
}

TEST_CASE("mistakes in a fault policy are named") {
  CHECK_THAT(
      MistakesOf("{ kind: xidd, meaning: m, action: count }"),
      Catch::Contains("kind \"xidd\" is none of xid,") && Catch::Contains("did you mean `xid`?"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m, action: drain }"),
             Catch::Contains("action \"drain\" is none of none, count"));
  CHECK_THAT(MistakesOf("{ kind: link_down, code: 3, meaning: m, action: count }"),
             Catch::Contains("link_down has no codes"));
  CHECK_THAT(MistakesOf("{ kind: xid, code: 0, meaning: m, action: count }"),
             Catch::Contains("code"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m }"), Catch::Contains("action"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m, action: count, covers: [../x] }"),
             Catch::Contains("is no name"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m, action: count, colour: red }"),
             Catch::Contains("colour"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m, action: drain_now }"),
             Catch::Contains("`covers` is missing"));
  CHECK_THAT(MistakesOf("{ kind: xid, meaning: m, action: count, two_users: drain_now }"),
             Catch::Contains("`covers` is missing"));
  CHECK_THAT(ParseFaultRules("version: 1\ncauses: [79, 48, 79]\n", {}).findings.at(0).message,
             Catch::Contains("Xid 79 has a place in this list already"));
  CHECK_THAT(MistakesOf("{ kind: breaker, meaning: m, action: drain_now, covers: [cpu] }"),
             Catch::Contains("is of more than one node"));
  CHECK(ParseFaultRules("rules: []", {}).findings.size() == 1);
  CHECK_FALSE(ParseFaultRules("version: 2", {}).findings.empty());
  CHECK_FALSE(ParseFaultRules("- [", {}).findings.empty());
}

}  // namespace tide::health
