// tide admin backup | restore | snapshot | migrate: the work of tide-admin, a program beside this
// one that opens the store itself; this one knows no database.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

// Returns only where that program cannot be run.
int Become(const Context& context, const std::string& verb, const std::vector<std::string>& words) {
  std::error_code ignored;
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe", ignored).replace_filename("tide-admin");
  std::vector<std::string> all = {program, verb};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  const bool missing = errno == ENOENT;
  return context.Report(
      {kExitFailed,
       "cannot run " + program + ": " +
           (missing ? "it is not installed here; run this on the scheduler's machine"
                    : std::string(std::strerror(errno))),  // NOLINT(concurrency-mt-unsafe)
       {},
       false});
}

}  // namespace

void AddStoreVerbs(CLI::App& admin, Context& context) {
  const auto add = [&](const std::string& name, const char* does) {
    CLI::App* verb = admin.add_subcommand(name, does);
    // All words are the other program's, --help too.
    verb->fallthrough(false);
    verb->set_help_flag();
    verb->prefix_command();
    verb->callback(
        [verb, name, &context] { context.exit_code = Become(context, name, verb->remaining()); });
  };
  add("backup", "Write the scheduler's store to a file, also while it is used");
  add("restore", "Load a backup into an empty store");
  add("snapshot", "Write what a bug report needs, without environments and commands");
  add("migrate", "With --check: what an upgrade would do to the store, and whether it can");
}

}  // namespace tide::cli
