#include "common/spec/job_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <tuple>

#include "common/spec/secret_name.h"
#include "common/spec/zone_rule.h"

namespace tide {
namespace {

constexpr Duration kCheckpointEveryMin = Duration::Seconds(1);
constexpr Duration kStartTimeoutMin = Duration::Seconds(1);
constexpr uint64_t kArrayAfterMax = 20'000;       // elements × dependencies
constexpr uint64_t kArrayBytesMax = 8ULL << 20U;  // of all elements together
constexpr uint32_t kNodesMax = 100'000;
constexpr uint32_t kPerNodeMax = 1024;  // GPUs and ranks
constexpr size_t kNameMax = 63;
constexpr size_t kLabelMax = 256;
constexpr int32_t kSigKill = 9;
constexpr int32_t kSigStop = 19;

bool IsName(std::string_view text) {
  const auto lower_or_digit = [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0;
  };
  if (text.empty() || text.size() > kNameMax ||
      !lower_or_digit(static_cast<unsigned char>(text[0]))) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return lower_or_digit(c) || c == '.' || c == '_' || c == '-';
  });
}

// Groups, zones and labels are named by sites, which may like capitals and slashes.
bool IsSiteName(std::string_view text) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-/").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kNameMax &&
         std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), good);
}

bool HasControl(std::string_view text) {
  return std::any_of(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool IsEnvName(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    return false;
  }
  return std::all_of(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// Folders of a container that it needs as they are. Of the first ones nothing may be covered, of
// the others parts may.
constexpr std::array kContainersOwn = {"/proc", "/sys", "/dev", "/run", "/var/run", "/opt/tide"};
constexpr std::array kNeededWhole = {
    "/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/var"};

bool IsAbsolute(std::string_view path) {
  return path.starts_with('/') && path.find("/../") == std::string_view::npos &&
         !path.ends_with("/..") && !HasControl(path);
}

class Checker {
 public:
  void Expect(bool good, std::string pointer, std::string message) {
    if (!good) {
      findings_.push_back({std::move(pointer), 0, 0, std::move(message), ""});
    }
  }
  std::vector<SpecFinding> Take() { return std::move(findings_); }

 private:
  std::vector<SpecFinding> findings_;
};

// What each element of an array has of its own in the scheduler's memory.
uint64_t TextBytes(const JobSpec& spec) {
  uint64_t bytes = 0;
  for (const std::string& word : spec.command) {
    bytes += word.size();
  }
  for (const auto* pairs : {&spec.env, &spec.labels}) {
    for (const auto& [key, value] : *pairs) {
      bytes += key.size() + value.size();
    }
  }
  for (const MountSpec& mount : spec.mounts) {
    bytes += mount.source.size() + mount.target.size();
  }
  for (const std::string& secret : spec.secrets) {
    bytes += secret.size();
  }
  return bytes;
}

void CheckSizes(const JobSpec& spec, Checker& check) {
  check.Expect(spec.nodes >= 1 && spec.nodes <= kNodesMax,
               "/resources/nodes",
               "resources.nodes must be from 1 to " + std::to_string(kNodesMax) + ", not " +
                   std::to_string(spec.nodes));
  check.Expect(spec.count >= 1 && spec.count <= kArrayCountMax,
               "/count",
               "count must be from 1 to " + std::to_string(kArrayCountMax));
  const uint64_t elements = spec.count;
  check.Expect(elements == 1 || elements * spec.after.size() <= kArrayAfterMax,
               "/after",
               "an array of " + std::to_string(elements) + " can wait for at most " +
                   std::to_string(kArrayAfterMax / std::max<uint64_t>(1, elements)) +
                   " others, not " + std::to_string(spec.after.size()) + ": name a whole array");
  check.Expect(elements == 1 || elements * TextBytes(spec) <= kArrayBytesMax,
               "/count",
               "command, env and labels of all elements together are " +
                   std::to_string(elements * TextBytes(spec) >> 20U) + " MiB, more than " +
                   std::to_string(kArrayBytesMax >> 20U) +
                   ": put the script into a file that the elements read");
  check.Expect(spec.ranks_per_node >= 1 && spec.ranks_per_node <= kPerNodeMax,
               "/resources/ranks_per_node",
               "resources.ranks_per_node must be from 1 to " + std::to_string(kPerNodeMax));
  check.Expect(spec.gpus_per_node <= kPerNodeMax,
               "/resources/gpus_per_node",
               "resources.gpus_per_node must be from 0 to " + std::to_string(kPerNodeMax));
  const std::string no_negative = " cannot be negative";
  check.Expect(spec.suspend_notice.nanos() >= 0, "/suspend/notice", "suspend.notice" + no_negative);
  check.Expect(spec.checkpoint_every.nanos() == 0 || spec.checkpoint_every >= kCheckpointEveryMin,
               "/checkpoint/every",
               "checkpoint.every must be at least 1s");
  check.Expect(spec.retry_backoff.nanos() >= 0, "/retry/backoff", "retry.backoff" + no_negative);
  check.Expect(spec.max_runtime.nanos() >= 0, "/max_runtime", "max_runtime" + no_negative);
  check.Expect(spec.start_timeout.nanos() == 0 || spec.start_timeout >= kStartTimeoutMin,
               "/start_timeout",
               "start_timeout must be at least 1s");
  check.Expect(!OnNanName(spec.on_nan).empty(),
               "/health/on_nan",
               "health.on_nan must be note, stop or rollback");
  const int32_t signal = spec.suspend_signal;
  check.Expect(signal >= 1 && signal <= 64 && signal != kSigKill && signal != kSigStop,
               "/suspend/signal",
               "suspend.signal must be a signal that a program can catch, such as SIGUSR1");
  const bool known = std::any_of(
      std::begin(kPriorityClasses), std::end(kPriorityClasses), [&](const PriorityClass& each) {
        return each.value == spec.priority;
      });
  check.Expect(known,
               "/priority",
               "priority " + std::to_string(spec.priority) + " is none of the nine classes");
}

void CheckPaths(const JobSpec& spec, Checker& check) {
  check.Expect(spec.workdir.empty() || IsAbsolute(spec.workdir),
               "/workdir",
               "workdir must be an absolute path without `..`, not \"" + spec.workdir + "\"");
  check.Expect(
      spec.checkpoint_dir.empty() || IsAbsolute(spec.checkpoint_dir),
      "/checkpoint/dir",
      "checkpoint.dir must be an absolute path without `..`, not \"" + spec.checkpoint_dir + "\"");
  // A container sees these two at their own places.
  for (const auto& [name, pointer, path] :
       {std::tuple("workdir", "/workdir", &spec.workdir),
        std::tuple("checkpoint.dir", "/checkpoint/dir", &spec.checkpoint_dir)}) {
    const std::string covered = path->empty() ? "" : CoveredBy(*path);
    check.Expect(covered.empty(),
                 pointer,
                 name + std::string(" ") + *path + " would cover " + covered +
                     " in the job's container: use a folder of your own");
  }
  std::set<std::string> targets;
  for (size_t i = 0; i < spec.mounts.size(); ++i) {
    const std::string pointer = "/mounts/" + std::to_string(i);
    check.Expect(targets.insert(CleanPath(spec.mounts[i].target)).second,
                 pointer + "/target",
                 "another mount of the job is at " + spec.mounts[i].target + " already");
    check.Expect(IsAbsolute(spec.mounts[i].source),
                 pointer + "/source",
                 "a mount's source must be an absolute path without `..`");
    check.Expect(IsAbsolute(spec.mounts[i].target),
                 pointer + "/target",
                 "a mount's target must be an absolute path below / without `..`");
    const std::string covered = CoveredBy(spec.mounts[i].target);
    check.Expect(covered.empty(),
                 pointer + "/target",
                 "a mount at " + spec.mounts[i].target + " would cover " + covered +
                     ", which the job's container needs: choose another target, as /data");
  }
}

void CheckMaps(const JobSpec& spec, Checker& check) {
  for (const auto& [key, value] : spec.env) {
    const std::string pointer = "/env/" + PointerStep(key);
    check.Expect(
        IsEnvName(key), pointer, "\"" + key + "\" is not a name for an environment variable");
    check.Expect(value.find('\0') == std::string::npos, pointer, "the value holds a NUL byte");
  }
  for (const auto& [key, value] : spec.labels) {
    const std::string pointer = "/labels/" + PointerStep(key);
    check.Expect(IsSiteName(key),
                 pointer,
                 "a label must start with a letter or digit and hold at most 63 of A-Z, a-z, 0-9, "
                 "'.', '_', '-' and '/'");
    check.Expect(value.size() <= kLabelMax && !HasControl(value),
                 pointer,
                 "the value of a label is one line of at most 256 bytes");
  }
}

void CheckAfter(const JobSpec& spec, Checker& check) {
  check.Expect(spec.after.size() <= kDependenciesMax,
               "/after",
               "a job may wait for at most " + std::to_string(kDependenciesMax) + " others");
  std::set<JobId> seen;
  for (size_t i = 0; i < spec.after.size(); ++i) {
    const Dependency& dependency = spec.after[i];
    const std::string pointer = "/after/" + std::to_string(i);
    check.Expect(dependency.job.value() > 0 && dependency.on <= AfterOutcome::kAny,
                 pointer,
                 "after names a job such as j-12");
    check.Expect(seen.insert(dependency.job).second,
                 pointer,
                 FormatJobName(dependency.job.value()) + " is named twice in `after`");
  }
}

void CheckSecrets(const JobSpec& spec, Checker& check) {
  check.Expect(spec.secrets.size() <= kSecretsOfJobMax,
               "/secrets",
               "a job may have at most " + std::to_string(kSecretsOfJobMax) + " secrets");
  std::set<std::string_view> seen;
  for (size_t i = 0; i < spec.secrets.size(); ++i) {
    const std::string& name = spec.secrets[i];
    const std::string pointer = "/secrets/" + std::to_string(i);
    if (!IsSecretName(name)) {
      check.Expect(false, pointer, "the name of a secret" + std::string(kSecretNameRule));
      continue;
    }
    const std::string variable = SecretVariable(name);
    check.Expect(seen.insert(name).second, pointer, "secret " + name + " is named twice");
    check.Expect(!spec.env.contains(variable),
                 pointer,
                 "secret " + name + " is the variable " + variable +
                     " of the ranks, which `env` sets as well: leave it out there");
    check.Expect(!IsVariableOfTide(variable),
                 pointer,
                 "secret " + name + " would be the variable " + variable +
                     " of the ranks, which Tide sets itself: give it another name");
  }
}

void CheckCommand(const JobSpec& spec, Checker& check) {
  check.Expect(!spec.command.empty() && !spec.command.front().empty(),
               "/command",
               "a job needs a `command` (a list of words) or a `script`");
  for (size_t i = 0; i < spec.command.size(); ++i) {
    check.Expect(spec.command[i].find('\0') == std::string::npos,
                 "/command/" + std::to_string(i),
                 "a word of the command holds a NUL byte");
  }
}

// Reports whether there is a letter or digit in it.
bool IsAnyWord(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return std::isalnum(c) != 0; });
}

void CheckZone(const std::string& zone, const std::string& site_rule, Checker& check) {
  if (!IsNamedZone(zone)) {
    check.Expect(ZonesMax(zone) > 0,
                 "/placement/zone",
                 "placement.zone: \"cross-ok:N\" takes a number of zones from 2 to " +
                     std::to_string(kZonesMaxMost));
    return;
  }
  check.Expect(IsSiteName(zone), "/placement/zone", "placement.zone" + site_rule);
}

}  // namespace

std::string CoveredBy(const std::string& path) {
  const std::string clean = CleanPath(path);
  for (const char* folder : kContainersOwn) {
    if (clean == folder || clean.starts_with(std::string(folder) + "/")) {
      return folder;
    }
  }
  const auto whole = std::ranges::find(kNeededWhole, clean);
  return whole == kNeededWhole.end() ? "" : *whole;
}

std::string CleanPath(std::string_view path) {
  std::string clean;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (!name.empty() && name != ".") {
      clean += '/';
      clean += name;
    }
  }
  return clean.empty() ? "/" : clean;
}

std::string PointerStep(std::string_view key) {
  std::string step;
  for (const char c : key) {
    step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return step;
}

std::vector<SpecFinding> CheckJobSpec(const JobSpec& spec) {
  Checker check;
  const std::string name_rule =
      " must start with a letter or digit and hold at most 63 of a-z, "
      "0-9, '.', '_' and '-'";
  check.Expect(IsName(spec.name), "/name", "name" + name_rule);
  check.Expect(IsName(spec.project), "/project", "project" + name_rule);
  const std::string site_rule =
      " must start with a letter or digit and hold at most 63 of A-Z, a-z, 0-9, '.', '_', '-' and "
      "'/'";
  check.Expect(IsSiteName(spec.group), "/resources/group", "resources.group" + site_rule);
  CheckZone(spec.zone, site_rule, check);
  check.Expect(spec.gpu_model.size() <= kNameMax && !HasControl(spec.gpu_model) &&
                   (spec.gpu_model.empty() || IsAnyWord(spec.gpu_model)),
               "/resources/gpu_model",
               "resources.gpu_model must be the name of a GPU, or words of it such as A100, of at "
               "most 63 characters");
  check.Expect(spec.gpu_model.empty() || spec.gpus_per_node > 0,
               "/resources/gpu_model",
               "resources.gpu_model is for jobs with GPUs; say gpus_per_node as well");
  check.Expect(!spec.image.empty() && !HasControl(spec.image) && spec.image.front() != '-' &&
                   spec.image.find(' ') == std::string::npos,
               "/image",
               "image must be the name of an image, or \"host\"");
  CheckCommand(spec, check);
  CheckSizes(spec, check);
  CheckPaths(spec, check);
  CheckMaps(spec, check);
  CheckAfter(spec, check);
  CheckSecrets(spec, check);
  return check.Take();
}

std::string PriorityName(int32_t value) {
  for (const PriorityClass& each : kPriorityClasses) {
    if (each.value == value) {
      return std::string(each.name);
    }
  }
  return std::to_string(value);
}

Result<int32_t> ParsePriority(std::string_view name) {
  std::string known;
  for (const PriorityClass& each : kPriorityClasses) {
    if (each.name == name) {
      return each.value;
    }
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(name) + "\" is no priority; choose one of " + known);
}

Result<uint64_t> ParseJobName(std::string_view text) {
  uint64_t id = 0;
  if (text.starts_with("j-")) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 2, end, id);
    if (error == std::errc() && stop == end && id > 0) {
      return id;
    }
  }
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(text) + "\" is no job id; they look like j-12");
}

std::string FormatJobName(uint64_t id) {
  return "j-" + std::to_string(id);
}

std::string_view OnNanName(OnNan on_nan) {
  switch (on_nan) {
    case OnNan::kNote:
      return "note";
    case OnNan::kStop:
      return "stop";
    case OnNan::kRollback:
      return "rollback";
  }
  return "";
}

Result<OnNan> ParseOnNan(std::string_view word) {
  for (const OnNan on_nan : {OnNan::kNote, OnNan::kStop, OnNan::kRollback}) {
    if (OnNanName(on_nan) == word) {
      return on_nan;
    }
  }
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(word) + "\" is not known; write note, stop or rollback");
}

std::string FormatFinding(const SpecFinding& finding, std::string_view file) {
  return std::string(file) + ":" + std::to_string(finding.line) + ":" +
         std::to_string(finding.column) + ": " + finding.message +
         (finding.suggestion.empty() ? "" : " (" + finding.suggestion + ")");
}

Error MistakesIn(std::string_view kind,
                 std::span<const SpecFinding> findings,
                 std::string_view file) {
  std::string message = "the " + std::string(kind) + " has mistakes:";
  for (const SpecFinding& finding : findings) {
    message += "\n" + FormatFinding(finding, file);
  }
  return {ErrorCode::kInvalidArgument, message};
}

}  // namespace tide
