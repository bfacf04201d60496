#include "agent/validators/verdict.h"

#include <catch2/catch.hpp>

namespace tide::validators {

TEST_CASE("a verdict survives its JSON") {
  for (const Outcome outcome :
       {Outcome::kPass, Outcome::kWarn, Outcome::kFail, Outcome::kSkipped}) {
    const Verdict verdict{"cpu", outcome, 12.5, "rounds/s", "two\nlines \"quoted\" \u00e9", 3.25};
    const std::string json = ToJson(verdict);
    CHECK(json.find('\n') == std::string::npos);
    CHECK(VerdictFromJson(json + "\n").value() == verdict);
  }
  Verdict broken;
  broken.evidence = "\xff";
  CHECK(VerdictFromJson(ToJson(broken)).value().evidence == "\ufffd");
}

TEST_CASE("anything else is refused") {
  const std::string good = ToJson(Verdict{"cpu", Outcome::kPass, 1, "x", "y", 1});
  CHECK(VerdictFromJson(good));
  for (
      const std::string& text :
      {std::string(),
       std::string("\n"),
       std::string("pass"),
       std::string("[]"),
       std::string("{}"),
       good + "\n" + good,
       good.substr(1),
       std::string(R"({"validator":"cpu","verdict":"pass"})"),
       std::string(
           R"({"validator":"c","verdict":"good","value":1,"unit":"","evidence":"","seconds":1})"),
       std::string(
           R"({"validator":"c","verdict":"pass","value":"1","unit":"","evidence":"","seconds":1})")}) {
    CAPTURE(text);
    const auto verdict = VerdictFromJson(text);
    REQUIRE_FALSE(verdict);
    CHECK(verdict.error().code == ErrorCode::kCorrupt);
  }
}

TEST_CASE("exit statuses follow the verdict") {
  CHECK(ExitCode(Outcome::kPass) == 0);
  CHECK(ExitCode(Outcome::kWarn) == 0);
  CHECK(ExitCode(Outcome::kFail) == 1);
  CHECK(ExitCode(Outcome::kSkipped) == 3);
}

}  // namespace tide::validators
