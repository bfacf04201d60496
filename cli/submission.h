#pragma once
// Reading and sending a spec: shared by `run`, `submit` and `plan`.

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "common/spec/job_spec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tide::cli {

struct SubmitOptions {
  std::string idempotency_key;  // "" = a fresh one
  bool follow = false;
  bool wait = false;  // return the job's own exit code
};

// The text of a job spec in `file`, - = standard input. Mistakes in it are a failure with findings.
[[nodiscard]] Answer<std::string> ReadSpec(const std::string& file);

void AddAfterOption(CLI::App& verb, std::vector<std::string>& words);
// --after: appends each of `words`, such as "j-12" or "j-12:any", to what `spec` waits for.
[[nodiscard]] Answer<void> AddAfter(const std::vector<std::string>& words, JobSpec& spec);

// Sends the text, prints the id on stdout once the server has the job, then follows or waits as
// asked. `file` names the text in messages. Returns the exit code.
[[nodiscard]] int SubmitText(Context& context,
                             const std::string& text,
                             const std::string& file,
                             const SubmitOptions& options);

// The exit code of a failure of ours: kExitOwnFailure where the job's code is what is returned.
[[nodiscard]] int OwnFailure(const SubmitOptions& options, int exit_code);

// What a command line says about itself.
// The script that `argv` starts through python, bash or sh, if that can be told.
[[nodiscard]] std::optional<std::string> ScriptOf(const std::vector<std::string>& argv);
// A job name for `argv`: that of its script, else of its program.
[[nodiscard]] std::string NameFor(const std::vector<std::string>& argv);
// Whether `script` is a file, seen from `workdir`.
[[nodiscard]] bool ScriptExists(const std::string& script, const std::string& workdir);

}  // namespace tide::cli
