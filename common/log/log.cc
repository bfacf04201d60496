#include "common/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

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
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
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
    line = std::string(message);
    const char* separator = " (";
    for (const Field& field : fields) {
      line += fmt::format("{}{}: {}", separator, field.key, field.value);
      separator = ", ";
    }
    if (fields.size() > 0) {
      line += ')';
    }
  }
  logger->log(ToSpdlog(level), "{}", line);
}

}  // namespace tide::log
