#include "agent/validators/site.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::validators {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFilePrefix = "tide-validator-";
constexpr std::string_view kFileSuffix = ".json";
constexpr size_t kValidatorNameMax = 40;
constexpr size_t kMaxFileBytes = 16384;
constexpr size_t kMaxArgs = 64;
constexpr int64_t kLongestTimeout = 3600;

std::unexpected<Error> Mistake(std::string text) {
  return Fail(ErrorCode::kInvalidArgument, std::move(text));
}

Result<std::vector<std::string>> ArgsFrom(const Json& value) {
  if (!value.is_array() || value.size() > kMaxArgs) {
    return Mistake("\"args\" must be a list of at most " + std::to_string(kMaxArgs) + " strings");
  }
  std::vector<std::string> args;
  for (const Json& item : value) {
    if (!item.is_string()) {
      return Mistake("\"args\" must hold strings only");
    }
    args.push_back(item.get<std::string>());
    if (args.back().find('\0') != std::string::npos) {
      return Mistake("\"args\" must not hold zero bytes");
    }
  }
  return args;
}

Result<int64_t> NumberFrom(const std::string& key, const Json& value, int64_t most) {
  const bool fits = value.is_number_integer() && value >= 1 && value <= most;
  if (!fits) {
    return Mistake("\"" + key + "\" must be a whole number from 1 to " + std::to_string(most));
  }
  return value.get<int64_t>();
}

// Parses strictly: a key given twice is a mistake, too.
Result<Json> ParseObject(const std::string& text) {
  std::vector<std::string> keys;
  bool repeated = false;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      std::string key = parsed.get<std::string>();
      repeated = repeated || std::ranges::find(keys, key) != keys.end();
      keys.push_back(std::move(key));
    }
    return true;
  };
  Json json = Json::parse(text, note, false);
  if (!json.is_object()) {
    return Mistake("it must be a JSON object");
  }
  if (repeated) {
    return Mistake("a key is given twice");
  }
  return json;
}

Status Fill(const Json& json, SiteFile& file) {
  for (const auto& [key, value] : json.items()) {
    if (key == "args") {
      TIDE_ASSIGN(file.args, ArgsFrom(value));
    } else if (key == "timeout_s") {
      TIDE_ASSIGN(const int64_t seconds, NumberFrom(key, value, kLongestTimeout));
      file.timeout = Duration::Seconds(seconds);
    } else if (key == "tier") {
      TIDE_ASSIGN(const int64_t tier, NumberFrom(key, value, 3));
      file.tier = static_cast<int>(tier);
    } else {
      constexpr size_t kShown = 40;
      const bool shown = key.size() <= kShown;
      return Mistake((shown ? "unknown key \"" + key + "\"" : std::string("unknown long key")) +
                     "; there are args, timeout_s and tier");
    }
  }
  return {};
}

Status ReadInto(const std::string& path, SiteFile& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Mistake("it is no regular file");
  }
  TIDE_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  TIDE_ASSIGN(const Json json, ParseObject(text));
  return Fill(json, file);
}

}  // namespace

bool IsValidatorName(std::string_view name) {
  return !name.empty() && name.size() <= kValidatorNameMax && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::optional<SiteFile> ReadSiteFile(const std::string& bin_dir, const std::string& validator) {
  const std::string path =
      bin_dir + "/" + std::string(kFilePrefix) + validator + std::string(kFileSuffix);
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return std::nullopt;
  }
  SiteFile file;
  if (const Status read = ReadInto(path, file); !read) {
    file = {};
    file.mistake = path + ": " + read.error().message;
  }
  file.validator = validator;
  return file;
}

SiteFiles ReadSiteFiles(const std::string& bin_dir) {
  SiteFiles found;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(bin_dir, error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix) ||
        name.size() <= kFilePrefix.size() + kFileSuffix.size()) {
      continue;  // the folder may be /usr/bin
    }
    name = name.substr(kFilePrefix.size(), name.size() - kFilePrefix.size() - kFileSuffix.size());
    if (!IsValidatorName(name)) {
      continue;
    }
    if (names.size() == kMaxSiteFiles) {
      found.more = true;
      break;
    }
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (auto file = ReadSiteFile(bin_dir, name)) {
      found.files.push_back(std::move(*file));
    }
  }
  return found;
}

}  // namespace tide::validators
