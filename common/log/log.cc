#include "common/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "common/base/utf8.h"

namespace tide::log {
namespace {

Format g_format = Format::kText;   // set once by Init, before threads start
std::string g_component = "tide";  // likewise

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string JsonEscape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return EscapeSteering(out);
}

}  // namespace

void Init(std::string_view component, Format format, Level lowest) {
  g_component = std::string(component);
  g_format = format;
  auto logger = std::make_shared<spdlog::logger>(g_component,
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(ToSpdlog(lowest));
  logger->flush_on(spdlog::level::debug);
  logger->set_pattern(format == Format::kText
                          ? "%Y-%m-%dT%H:%M:%S.%e %L %n %v"
                          : R"({"ts":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","component":"%n",%v})");
  spdlog::set_default_logger(std::move(logger));
}

void Write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  spdlog::logger* logger = spdlog::default_logger_raw();
  if (!logger->should_log(ToSpdlog(level))) {
    return;
  }
  std::string line;
  if (g_format == Format::kJson) {
    line = fmt::format(R"("msg":"{}")", JsonEscape(message));
    for (const Field& field : fields) {
      line += fmt::format(R"(,"{}":"{}")", field.key, JsonEscape(field.value));
    }
  } else {
    line = EscapeSteering(message);
    const char* separator = " (";
    for (const Field& field : fields) {
      line += fmt::format("{}{}: {}", separator, field.key, EscapeSteering(field.value));
      separator = ", ";
    }
    if (fields.size() > 0) {
      line += ')';
    }
  }
  logger->log(ToSpdlog(level), "{}", line);
}

}  // namespace tide::log
