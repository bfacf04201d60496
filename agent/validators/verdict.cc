#include "agent/validators/verdict.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/file.h"

namespace tide::validators {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Outcome> OutcomeFromName(std::string_view name) {
  for (const Outcome outcome :
       {Outcome::kPass, Outcome::kWarn, Outcome::kFail, Outcome::kSkipped}) {
    if (name == OutcomeName(outcome)) {
      return outcome;
    }
  }
  return std::nullopt;
}

bool HasTypes(const Json& json) {
  const auto has = [&json](const char* key, bool (Json::*is_type)() const noexcept) {
    const auto field = json.find(key);
    return field != json.end() && ((*field).*is_type)();
  };
  return json.is_object() && has("validator", &Json::is_string) &&
         has("verdict", &Json::is_string) && has("value", &Json::is_number) &&
         has("unit", &Json::is_string) && has("evidence", &Json::is_string) &&
         has("seconds", &Json::is_number);
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return "pass";
    case Outcome::kWarn:
      return "warn";
    case Outcome::kFail:
      return "fail";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "fail";
}

int ExitCode(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
    case Outcome::kWarn:
      return kExitGood;
    case Outcome::kFail:
      return kExitFail;
    case Outcome::kSkipped:
      return kExitSkipped;
  }
  return kExitFail;
}

std::string ToJson(const Verdict& verdict) {
  const Json json = {
      {"validator", verdict.validator},
      {"verdict", OutcomeName(verdict.outcome)},
      {"value", verdict.value},
      {"unit", verdict.unit},
      {"evidence", verdict.evidence},
      {"seconds", verdict.seconds},
  };
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Verdict> VerdictFromJson(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  if (text.empty() || text.find('\n') != std::string_view::npos) {
    return Fail(ErrorCode::kCorrupt, "expected one line with a verdict");
  }
  const Json json = Json::parse(text, nullptr, false);
  if (!HasTypes(json)) {
    return Fail(ErrorCode::kCorrupt, "this is no verdict: " + std::string(text.substr(0, 80)));
  }
  const auto outcome = OutcomeFromName(json["verdict"].get<std::string>());
  if (!outcome) {
    return Fail(ErrorCode::kCorrupt, "unknown verdict " + json["verdict"].dump());
  }
  Verdict verdict;
  verdict.validator = json["validator"].get<std::string>();
  verdict.outcome = *outcome;
  verdict.value = json["value"].get<double>();
  verdict.unit = json["unit"].get<std::string>();
  verdict.evidence = json["evidence"].get<std::string>();
  verdict.seconds = json["seconds"].get<double>();
  return verdict;
}

int Conclude(const Verdict& verdict) {
  if (!WriteAll(STDOUT_FILENO, ToJson(verdict) + "\n")) {
    return kExitFail;  // nobody would see a pass
  }
  return ExitCode(verdict.outcome);
}

}  // namespace tide::validators
