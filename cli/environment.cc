#include "cli/environment.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tide::cli {

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return value == nullptr ? "" : value;
}

std::string WorkingFolder() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  return error ? "" : path.string();
}

}  // namespace tide::cli
