#include "agent/validators/suite.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/validators/program.h"
#include "agent/validators/site.h"

namespace tide::validators {
namespace {

// A validator that no suite names may take as long as those after a repair.
constexpr Duration kTimeLimit = Duration::Minutes(8);

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  constexpr std::string_view kPrefix = "tide-validator-";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

Result<Verdict> Interpret(const std::string& path, const ChildResult& child) {
  if (child.too_much) {
    return Fail(ErrorCode::kCorrupt,
                path + " wrote more than " + std::to_string(kMaxOutput) + " bytes");
  }
  if (WIFSIGNALED(child.status)) {
    return Fail(ErrorCode::kInternal, path + " " + DescribeStatus(child.status));
  }
  auto verdict = VerdictFromJson(child.output);
  if (!verdict) {
    return Fail(ErrorCode::kCorrupt,
                path + " " + DescribeStatus(child.status) + ": " + verdict.error().message);
  }
  if (WEXITSTATUS(child.status) != ExitCode(verdict->outcome)) {
    return Fail(ErrorCode::kCorrupt,
                path + " says " + std::string(OutcomeName(verdict->outcome)) + " but " +
                    DescribeStatus(child.status));
  }
  return verdict;
}

std::string ProgramPath(const std::string& bin_dir, std::string_view validator) {
  return bin_dir + "/tide-validator-" + std::string(validator);
}

// Lists the validators that are part of Tide. The time limits of the quick ones are 45 s in all.
std::vector<SuiteEntry> BuiltIn(bool full,
                                const std::string& bin_dir,
                                const std::string& storage_dir,
                                const std::string& sysfs_root) {
  const std::vector<std::string> sysfs = {"--sysfs-root", sysfs_root};
  const auto limit = [full](int64_t quick_s, int64_t full_s) {
    return Duration::Seconds(full ? full_s : quick_s);
  };
  std::vector<SuiteEntry> suite;
  suite.push_back({"links", ProgramPath(bin_dir, "links"), sysfs, limit(4, 10)});
  suite.push_back(
      {"cpu", ProgramPath(bin_dir, "cpu"), {"--seconds", full ? "60" : "5"}, limit(10, 90)});
  std::vector<std::string> memory = sysfs;
  memory.insert(memory.end(), {"--seconds", full ? "60" : "5"});
  if (full) {
    memory.insert(memory.end(), {"--bytes", "8589934592"});
  }
  suite.push_back({"memory", ProgramPath(bin_dir, "memory"), std::move(memory), limit(12, 120)});
  if (!storage_dir.empty()) {
    suite.push_back({"storage",
                     ProgramPath(bin_dir, "storage"),
                     {"--dir",
                      storage_dir,
                      "--bytes",
                      full ? "1073741824" : "67108864",
                      "--timeout",
                      full ? "180" : "15"},
                     limit(19, 190)});
  }
  if (full) {
    suite.push_back({"loopback",
                     ProgramPath(bin_dir, "loopback"),
                     {"--sysfs-root", sysfs_root, "--seconds", "20"},
                     Duration::Seconds(60)});
  }
  return suite;
}

// Lets a file's "--name value" pairs take the place of the entry's. Returns the mistake, if any.
std::string MergeArgs(const SiteFile& file,
                      const std::string& path,
                      std::vector<std::string>& args) {
  const std::vector<std::string> pairs = file.args.value_or(std::vector<std::string>());
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const std::string& name = pairs.at(i);
    if (!name.starts_with("--") || i + 1 == pairs.size()) {
      return path + ".json: \"args\" must be pairs of --name and value";
    }
    const bool lengthens = name == "--seconds" || name == "--bytes" || name == "--timeout";
    if (lengthens && !file.timeout) {
      return path + ".json: " + name + " needs a timeout_s that leaves room for it";
    }
    const auto found = std::ranges::find(args, name);
    if (found != args.end()) {
      *(found + 1) = pairs.at(i + 1);
    } else {
      args.insert(args.end(), {name, pairs.at(i + 1)});
    }
  }
  return "";
}

// Changes a built-in entry as its file says.
void Override(const SiteFile& file, SuiteEntry& entry) {
  entry.mistake = file.mistake;
  if (entry.validator == "storage" && file.tier.value_or(1) != 1) {
    entry.mistake = entry.path + ".json: the \"tier\" of storage can only be 1";
  }
  if (entry.mistake.empty()) {
    entry.mistake = MergeArgs(file, entry.path, entry.args);
  }
  entry.timeout = file.timeout.value_or(entry.timeout);
}

SuiteEntry SiteEntry(const SiteFile& file, const std::string& bin_dir) {
  SuiteEntry entry{file.validator,
                   ProgramPath(bin_dir, file.validator),
                   file.args.value_or(std::vector<std::string>()),
                   file.timeout.value_or(kTimeLimit)};
  entry.mistake = file.mistake;
  return entry;
}

}  // namespace

Result<Verdict> RunValidator(const std::string& path,
                             const std::vector<std::string>& args,
                             Duration timeout,
                             const StopSignal* stop) {
  const int64_t start = MonotonicNanos();
  const auto ran = RunProgram(path, args, Errors::kDropped, timeout, stop);
  if (!ran && ran.error().code == ErrorCode::kNotFound) {
    return Fail(ErrorCode::kNotFound, path + ": there is no such validator; is it installed?");
  }
  TIDE_ASSIGN(const ChildResult child, ran);
  if (child.stopped) {
    return Fail(ErrorCode::kUnavailable, path + " was stopped");
  }
  if (child.timed_out) {
    Verdict verdict;
    verdict.validator = NameOf(path);
    verdict.outcome = Outcome::kFail;
    verdict.evidence = "did not answer in " + FormatDuration(timeout) +
                       (child.abandoned ? " and cannot be killed: stuck in the kernel" : "");
    verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
    return verdict;
  }
  if (child.abandoned) {
    return Fail(ErrorCode::kSystem, path + " cannot be killed: stuck in the kernel");
  }
  return Interpret(path, child);
}

Result<std::vector<SuiteEntry>> SuiteFor(std::string_view name,
                                         const std::string& bin_dir,
                                         const std::string& storage_dir,
                                         const std::string& sysfs_root) {
  const bool full = name == "full";
  if (!full && name != "quick") {
    return Fail(ErrorCode::kInvalidArgument,
                "there is no suite \"" + std::string(name) + "\"; use quick or full");
  }
  std::vector<SuiteEntry> suite = BuiltIn(full, bin_dir, storage_dir, sysfs_root);
  const SiteFiles site = ReadSiteFiles(bin_dir);
  for (const SiteFile& file : site.files) {
    const auto entry = std::ranges::find(suite, file.validator, &SuiteEntry::validator);
    // Storage stays in quick: run by its name alone it would not know its folder.
    const bool stays = file.validator == "storage";
    const bool belongs = full || stays || file.tier.value_or(1) == 1;
    if (entry != suite.end() && belongs) {
      Override(file, *entry);
    } else if (entry != suite.end()) {
      suite.erase(entry);
    } else if (!stays && belongs && (file.tier || !file.mistake.empty())) {
      suite.push_back(SiteEntry(file, bin_dir));
    }
  }
  if (site.more) {
    SuiteEntry others{"others", "", {}, kTimeLimit};
    others.mistake = bin_dir + " holds more than " + std::to_string(kMaxSiteFiles) +
                     " files tide-validator-*.json; the others were not looked at";
    suite.push_back(std::move(others));
  }
  return suite;
}

void AddValidators(const std::vector<std::string>& names,
                   const std::string& bin_dir,
                   std::vector<SuiteEntry>& suite) {
  for (const std::string& name : names) {
    const bool is_there = std::ranges::find(suite, name, &SuiteEntry::validator) != suite.end();
    if (!IsValidatorName(name) || is_there) {
      continue;
    }
    SiteFile file = ReadSiteFile(bin_dir, name).value_or(SiteFile());
    file.validator = name;
    suite.push_back(SiteEntry(file, bin_dir));
  }
}

std::vector<Verdict> RunSuite(const std::vector<SuiteEntry>& suite, const StopSignal* stop) {
  std::vector<Verdict> verdicts;
  const auto stopped = [stop] { return stop != nullptr && stop->raised(); };
  for (const SuiteEntry& entry : suite) {
    if (stopped()) {
      break;
    }
    Result<Verdict> verdict = Verdict();
    if (!entry.mistake.empty()) {
      verdict->evidence = entry.mistake;
    } else {
      verdict = RunValidator(entry.path, entry.args, entry.timeout, stop);
    }
    if (!verdict && stopped()) {
      break;
    }
    if (!verdict) {
      Verdict skipped;
      skipped.evidence = verdict.error().code == ErrorCode::kNotFound
                             ? "not installed"
                             : "could not be run: " + verdict.error().message;
      verdict = std::move(skipped);
    }
    verdict->validator = entry.validator;
    verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

Outcome Overall(const std::vector<Verdict>& verdicts) {
  const auto any = [&verdicts](Outcome outcome) {
    return std::ranges::any_of(verdicts,
                               [outcome](const Verdict& v) { return v.outcome == outcome; });
  };
  for (const Outcome outcome : {Outcome::kFail, Outcome::kWarn, Outcome::kPass}) {
    if (any(outcome)) {
      return outcome;
    }
  }
  return Outcome::kSkipped;
}

}  // namespace tide::validators
