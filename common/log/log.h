#pragma once
// Structured logs of the daemons: one JSON line or one line of text each, on stderr.
// The message is constant text; variables go into the fields. Cores never log.

#include <fmt/core.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace tide::log {

enum class Level {
  kDebug,
  kInfo,
  kWarning,
  kError
};

enum class Format {
  kText,
  kJson
};

struct Field {
  std::string_view key;
  std::string value;
  template <typename T>
  Field(std::string_view name, const T& any)  // NOLINT(google-explicit-constructor)
      : key(name), value(fmt::format("{}", any)) {}
};

// Call once, before threads start. `component` is the program's name.
void Init(std::string_view component, Format format, Level lowest);

void Write(Level level, std::string_view message, std::initializer_list<Field> fields);

inline void Debug(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kDebug, message, fields);
}
inline void Info(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kInfo, message, fields);
}
inline void Warning(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kWarning, message, fields);
}
inline void Failure(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kError, message, fields);
}

}  // namespace tide::log
