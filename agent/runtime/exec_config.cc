#include "agent/runtime/exec_config.h"

#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>

namespace tide::agent {
namespace {

using ExecJson = nlohmann::json;

}  // namespace

Result<std::string> ExecConfigToJson(const ExecConfig& config) {
  const ExecJson json = {{"tag", config.tag},
                         {"commands", config.commands},
                         {"env", config.env},
                         {"workdir", config.workdir},
                         {"uid", config.uid},
                         {"gid", config.gid},
                         {"drop_user", config.drop_user},
                         {"terminal", config.terminal},
                         {"supervisor_pid", config.supervisor_pid},
                         {"supervisor_start_ticks", config.supervisor_start_ticks}};
  try {
    return json.dump();
  } catch (const ExecJson::exception&) {
    return Fail(ErrorCode::kInvalidArgument, "the command is not UTF-8");
  }
}

Result<ExecConfig> ExecConfigFromJson(std::string_view text) {
  try {
    const ExecJson json = ExecJson::parse(text);
    ExecConfig config;
    json.at("tag").get_to(config.tag);
    json.at("commands").get_to(config.commands);
    json.at("env").get_to(config.env);
    json.at("workdir").get_to(config.workdir);
    json.at("uid").get_to(config.uid);
    json.at("gid").get_to(config.gid);
    json.at("drop_user").get_to(config.drop_user);
    json.at("terminal").get_to(config.terminal);
    json.at("supervisor_pid").get_to(config.supervisor_pid);
    json.at("supervisor_start_ticks").get_to(config.supervisor_start_ticks);
    return config;
  } catch (const ExecJson::exception& error) {
    return Fail(ErrorCode::kCorrupt, std::string("configuration of a command: ") + error.what());
  }
}

std::string ExecReportToText(const ExecReport& report) {
  const ExecJson json = {{"kind", static_cast<int>(report.kind)},
                         {"code", report.code},
                         {"signal", report.signal},
                         {"text", report.text.substr(0, kExecPacketMax / 8)}};
  return json.dump(-1, ' ', false, ExecJson::error_handler_t::replace);
}

std::optional<ExecReport> ExecReportFromText(std::string_view text) {
  const ExecJson json = ExecJson::parse(text, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  try {
    const int kind = json.at("kind").get<int>();
    ExecReport report{.kind = static_cast<ExecReport::Kind>(kind),
                      .code = json.at("code").get<int32_t>(),
                      .signal = json.at("signal").get<int32_t>(),
                      .text = json.at("text").get<std::string>()};
    const bool known = kind >= static_cast<int>(ExecReport::Kind::kStarted) &&
                       kind <= static_cast<int>(ExecReport::Kind::kEnded);
    const bool possible =
        report.code >= 0 && report.code <= 255 && report.signal >= 0 && report.signal < NSIG;
    return known && possible ? std::optional(std::move(report)) : std::nullopt;
  } catch (const ExecJson::exception&) {
    return std::nullopt;
  }
}

std::string ExecSignalToText(int signal) {
  return std::to_string(signal);
}

std::optional<int> ExecSignalFromText(std::string_view text) {
  int signal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), signal);
  const bool all = error == std::errc() && end == text.data() + text.size();
  return all && signal > 0 && signal < NSIG ? std::optional(signal) : std::nullopt;
}

}  // namespace tide::agent
