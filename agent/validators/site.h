#pragma once
// Files in which a site adds or changes validators: `tide-validator-NAME.json` beside the program.
//
//   {"args": ["--floor-mbps", "200"], "timeout_s": 60, "tier": 2}
//
// Every key is optional. Strict: a file with a mistake keeps its validator from running.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"

namespace tide::validators {

constexpr size_t kMaxSiteFiles = 256;

struct SiteFile {
  std::string validator;
  std::optional<std::vector<std::string>> args;
  std::optional<Duration> timeout;
  std::optional<int> tier;  // 1: quick and full; 2, 3: full
  std::string mistake;      // names the file; when there is one, nothing else counts
};

struct SiteFiles {
  std::vector<SiteFile> files;  // sorted by validator
  bool more = false;            // there are others beyond kMaxSiteFiles
};

// Returns whether NAME may follow "tide-validator-": 1 to 40 of a-z, 0-9, - and _.
[[nodiscard]] bool IsValidatorName(std::string_view name);

// Reads the file of one validator, if there is one.
[[nodiscard]] std::optional<SiteFile> ReadSiteFile(const std::string& bin_dir,
                                                   const std::string& validator);

// Reads those of a folder.
[[nodiscard]] SiteFiles ReadSiteFiles(const std::string& bin_dir);

}  // namespace tide::validators
