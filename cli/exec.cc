// tide exec, tide shell: commands inside a running job.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/remote_command.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct ExecOptions {
  RemoteCommand command;
  bool no_input = false;
  bool input = false;
};

int Exec(Context& context, ExecOptions& options) {
  if (!context.after_dashes || context.after_dashes->empty()) {
    context.own_failure = kExitOwnFailure;
    return context.Report({kExitOwnFailure,
                           "name the command after `--`: tide exec " + options.command.job +
                               " -- nvidia-smi; for a shell: tide shell " + options.command.job,
                           {},
                           false});
  }
  options.command.argv = *context.after_dashes;
  options.command.input = !options.no_input;
  return RunRemote(context, options.command);
}

int Shell(Context& context, ExecOptions& options) {
  // A script on stdin gets none: `tide shell j-1 < script`.
  options.command.terminal = ::isatty(STDIN_FILENO) == 1;
  return RunRemote(context, options.command);
}

void AddJobAndRank(CLI::App& verb, ExecOptions& options) {
  verb.add_option("job", options.command.job, "Id, or a name (your latest)")->required();
  verb.add_option("--rank", options.command.rank, "Whose node and environment; default: 0")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace

void AddExecVerbs(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ExecOptions>();
  CLI::App* exec = app.add_subcommand("exec", "Run a command inside a running job");
  AddJobAndRank(*exec, *options);
  exec->add_flag("-t,--tty", options->command.terminal, "Give the command a terminal");
  exec->add_flag("-i,--stdin", options->input, "Pass standard input on (the default)");
  exec->add_flag("-n,--no-stdin", options->no_input, "Pass no standard input on, as in a loop")
      ->excludes("-i");
  exec->footer(
      "Write the command after `--`, as in: tide exec j-12 --rank 3 -- nvidia-smi\n"
      "It runs in the rank's container, with its user, limits and environment, and ends with it.\n"
      "Returns the command's exit code, 128 + N for signal N; 125 = tide itself failed.");
  exec->callback([options, &context] { context.exit_code = Exec(context, *options); });

  const auto shell_options = std::make_shared<ExecOptions>();
  CLI::App* shell = app.add_subcommand("shell", "Open a shell inside a running job");
  AddJobAndRank(*shell, *shell_options);
  shell->footer(
      "Starts bash, or sh where there is none, in the rank's container. Whatever is started there\n"
      "ends with the shell, and the shell with the job's attempt.\n"
      "Returns the shell's exit code; 125 = tide itself failed.");
  shell->callback(
      [shell_options, &context] { context.exit_code = Shell(context, *shell_options); });
}

}  // namespace tide::cli
