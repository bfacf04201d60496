#pragma once
// Runs validators as programs of their own and collects their verdicts.
//
// Everything here blocks and belongs on a worker thread; the functions share nothing, so several
// threads may call them. No shell is involved, output is bounded, time is bounded: a program that
// hangs, even in the kernel, costs its timeout and two seconds.

#include <string>
#include <string_view>
#include <vector>

#include "agent/validators/stop_signal.h"
#include "agent/validators/verdict.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::validators {

struct SuiteEntry {
  std::string validator;
  std::string path;
  std::vector<std::string> args;
  Duration timeout;
  std::string mistake = {};  // not empty: it does not run, and this is the evidence
};

// Runs one validator. Past `timeout` the verdict is fail ("did not answer in N s").
//   stop: kills it when raised.
//   Errors: kNotFound (no such program), kCorrupt (no verdict, or one that contradicts the exit
//   status), kInternal (died of a signal), kUnavailable (stopped), kSystem.
[[nodiscard]] Result<Verdict> RunValidator(const std::string& path,
                                           const std::vector<std::string>& args,
                                           Duration timeout,
                                           const StopSignal* stop = nullptr);

// The validators of "quick" (at most 45 s, before a job restarts on a suspect node) or "full"
// (minutes, after a repair): the built-in ones, and those of `bin_dir` whose file gives a tier
// (site.h), 1 for quick. Storage is left out when `storage_dir` is empty. Reads the folder.
//   sysfs_root: where links and counters are looked at.
//   Errors: kInvalidArgument for another name.
[[nodiscard]] Result<std::vector<SuiteEntry>> SuiteFor(std::string_view name,
                                                       const std::string& bin_dir,
                                                       const std::string& storage_dir,
                                                       const std::string& sysfs_root = "/sys");

// Appends those of `names` that the suite lacks, with the arguments and the time of their file.
// `bin_dir`/tide-validator-NAME is a validator, whoever put it there; one that is not there is
// skipped when the suite runs.
void AddValidators(const std::vector<std::string>& names,
                   const std::string& bin_dir,
                   std::vector<SuiteEntry>& suite);

// Runs all, one after the other. One that cannot be run counts as skipped, with the error as
// evidence: a broken installation is no broken hardware. Where `stop` is raised, returns the
// verdicts of those that had ended.
[[nodiscard]] std::vector<Verdict> RunSuite(const std::vector<SuiteEntry>& suite,
                                            const StopSignal* stop = nullptr);

// The worst of all: fail, else warn, else skipped when nothing passed, else pass.
[[nodiscard]] Outcome Overall(const std::vector<Verdict>& verdicts);

}  // namespace tide::validators
