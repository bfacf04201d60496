// tide: the command line. Each verb is a file of its own; see verbs.h.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/verbs.h"
#include "common/spec/suggest.h"

namespace tide::cli {
namespace {

void AddGlobalOptions(CLI::App& app, Context& context) {
  app.set_version_flag("--version", "tide " TIDE_VERSION);
  app.add_option("-o,--output", context.options.output, "table, json, jsonl or name")
      ->check(CLI::IsMember({"table", "json", "jsonl", "name"}));
  app.add_option("--server", context.options.server, "Address of the server (TIDE_SERVER)");
  app.add_option("--ca", context.options.ca, "PEM file of the authority to trust (TIDE_CA)");
  app.add_option(
      "--timeout", context.options.timeout, "Longest wait for the server; 30s, and 3s to find one");
  app.add_flag("-q,--quiet", context.options.quiet, "No hints on stderr");
  app.add_flag("--no-color", context.options.no_color, "No colour (NO_COLOR)");
}

void AddVerbs(CLI::App& app, Context& context) {
  AddRunVerb(app, context);
  AddSubmitVerb(app, context);
  AddPlanVerb(app, context);
  AddPsVerb(app, context);
  AddShowVerb(app, context);
  AddCheckpointsVerb(app, context);
  AddWhyVerb(app, context);
  AddLogsVerb(app, context);
  AddWaitVerb(app, context);
  AddExecVerbs(app, context);
  AddJobControlVerbs(app, context);
  AddMoveVerb(app, context);
  AddSignInVerbs(app, context);
  AddTokenVerb(app, context);
  AddUserVerb(app, context);
  AddProjectVerb(app, context);
  AddSecretVerb(app, context);
  AddImagesVerb(app, context);
  AddNodesVerb(app, context);
  AddNodeVerb(app, context);
  AddDrainVerbs(app, context);
  AddValidateVerb(app, context);
  AddUsageVerb(app, context);
  AddFaultsVerb(app, context);
  AddSimVerb(app, context);
  AddAdminVerb(app, context);
#ifdef TIDE_HAS_DEV
  AddDevVerb(app, context);
#endif
}

// What is wrong with a first word that is no verb; "" if that is not what is wrong.
std::string VerbAdvice(const CLI::App& app) {
  const auto stray = app.get_subcommands().empty() ? app.remaining() : std::vector<std::string>();
  if (stray.empty()) {
    return "";
  }
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  const std::string near = NearestWord(stray.front(), {names.begin(), names.end()});
  return "there is no verb `" + stray.front() + "`" +
         (near.empty() ? "" : " (did you mean `" + near + "`?)");
}

int Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    return app.exit(error);  // --help and --version
  }
  const auto verbs = app.get_subcommands();
  const std::string verb = verbs.empty() ? "" : " " + verbs.front()->get_name();
  const std::string advice = VerbAdvice(app);
  std::fprintf(stderr,
               "tide: %s; see `tide%s --help`\n",
               Printable(advice.empty() ? error.what() : advice).c_str(),
               verb.c_str());
  return kExitUsage;
}

int Main(int argc, char** argv) {
  Context context;
  // What follows "--" belongs to the job and is none of the parser's business.
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) {
    context.after_dashes.emplace(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  CLI::App app("Tide runs training jobs on a cluster and keeps them going.", "tide");
  app.fallthrough();
  app.require_subcommand(1);
  AddGlobalOptions(app, context);
  AddVerbs(app, context);
  std::reverse(words.begin(), words.end());  // the order that CLI11 wants
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    context.exit_code = Explain(app, error);
  }
  return context.Finish();
}

}  // namespace
}  // namespace tide::cli

int main(int argc, char** argv) {
  try {
    return tide::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tide: %s; this is a fault of tide itself\n", error.what());
    return tide::kExitFailed;
  }
}
