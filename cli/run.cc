// tide run [options] -- COMMAND: one line instead of a spec file.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/context.h"
#include "cli/environment.h"
#include "cli/submission.h"
#include "cli/verbs.h"
#include "common/spec/span_text.h"
#include "common/spec/spec_text.h"

namespace tide::cli {
namespace {

struct RunOptions {
  uint32_t nodes = 1;
  uint32_t ranks_per_node = 0;  // 0 = the usual
  uint32_t gpus = 0;
  std::string gpu_model;
  uint32_t count = 1;
  std::string project;
  std::string group;
  std::string zone;
  std::string priority;
  std::string image;
  std::string name;
  std::string ckpt_dir;
  std::string ckpt_every;
  std::string workdir;
  std::vector<std::string> env;
  std::vector<std::string> secrets;
  std::vector<std::string> after;
  std::vector<std::string> stray;  // words before "--"
  bool print_spec = false;
  SubmitOptions submit;
};

void SetIfGiven(const std::string& value, std::string& field) {
  if (!value.empty()) {
    field = value;
  }
}

Answer<JobSpec> SpecFrom(const RunOptions& options, const std::vector<std::string>& argv) {
  JobSpec spec;
  spec.command = argv;
  spec.name = options.name.empty() ? NameFor(argv) : options.name;
  spec.workdir = options.workdir.empty() ? WorkingFolder() : options.workdir;
  if (options.workdir.empty() && !CoveredBy(spec.workdir).empty()) {
    spec.workdir.clear();  // from "/", say: the job has a folder of its own then
  }
  spec.nodes = options.nodes;
  spec.gpus_per_node = options.gpus;
  spec.gpu_model = options.gpu_model;
  spec.count = options.count;
  spec.ranks_per_node =
      options.ranks_per_node > 0 ? options.ranks_per_node : std::max(1U, options.gpus);
  SetIfGiven(options.project, spec.project);
  SetIfGiven(options.group, spec.group);
  SetIfGiven(options.zone, spec.zone);
  SetIfGiven(options.image, spec.image);
  SetIfGiven(options.ckpt_dir, spec.checkpoint_dir);
  if (!options.ckpt_every.empty()) {
    const auto every = ParseSpan(options.ckpt_every);
    if (!every) {
      return Refuse(kExitUsage, "--ckpt-every: " + every.error().message);
    }
    spec.checkpoint_every = *every;
  }
  if (!options.priority.empty()) {
    const auto priority = ParsePriority(options.priority);
    if (!priority) {
      return Refuse(kExitUsage, "--priority: " + priority.error().message);
    }
    spec.priority = *priority;
  }
  for (const std::string& entry : options.env) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      return Refuse(kExitUsage, "--env " + entry + ": write it as NAME=VALUE");
    }
    spec.env[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  spec.secrets = options.secrets;
  if (auto added = AddAfter(options.after, spec); !added) {
    return std::unexpected(std::move(added.error()));
  }
  if (auto findings = CheckJobSpec(spec); !findings.empty()) {
    return std::unexpected(Failure{kExitUsage, "", std::move(findings), false});
  }
  return spec;
}

bool IsSpecFile(std::string_view word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

Answer<JobSpec> Prepare(const Context& context, const RunOptions& options) {
  if (options.stray.size() == 1 && !context.after_dashes && IsSpecFile(options.stray.front())) {
    return Refuse(
        kExitUsage,
        options.stray.front() + " looks like a job spec: tide submit " + options.stray.front());
  }
  if (!options.stray.empty() || !context.after_dashes || context.after_dashes->empty()) {
    return Refuse(kExitUsage,
                  "put the command after `--`, such as: tide run -n 2 -- python3 train.py");
  }
  auto spec = SpecFrom(options, *context.after_dashes);
  const auto script = ScriptOf(*context.after_dashes);
  if (spec && script && !ScriptExists(*script, spec->workdir)) {
    return Refuse(kExitUsage,
                  "there is no script " + *script + " in " +
                      (spec->workdir.empty() ? "the job's own folder" : spec->workdir) +
                      "; nothing was submitted. Check the name, or set --workdir");
  }
  return spec;
}

int Run(Context& context, const RunOptions& options) {
  const auto spec = Prepare(context, options);
  if (!spec) {
    return OwnFailure(options.submit, context.Report(spec.error()));
  }
  const std::string text = FormatJobSpecYaml(*spec);
  if (options.print_spec) {
    context.Print(text);
    return kExitOk;
  }
  return SubmitText(context, text, "", options.submit);
}

}  // namespace

void AddRunVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand("run", "Submit a command: tide run [options] -- COMMAND");
  verb->add_option("-n,--nodes", options->nodes, "Nodes, all of them or none");
  verb->add_option("--ranks-per-node", options->ranks_per_node, "Processes on each node");
  verb->add_option("--gpus", options->gpus, "GPUs on each node");
  verb->add_option("--gpu-model", options->gpu_model, "Words of the GPU's name, such as A100");
  verb->add_option("--project", options->project, "Project that is charged; yours by default");
  verb->add_option("--group", options->group, "Pool of nodes");
  verb->add_option("--zone",
                   options->zone,
                   "single, cross-ok, cross-ok:N (N zones at most) or the name of a zone");
  verb->add_option("--priority", options->priority, "Priority class, such as high");
  verb->add_option("--image", options->image, "Image; host = the node's own files");
  verb->add_option("--env", options->env, "NAME=VALUE, may be repeated")->allow_extra_args(false);
  verb->add_option("--secret", options->secrets, "Of `tide secret list`, may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--name", options->name, "Name of the job");
  verb->add_option("--ckpt-dir", options->ckpt_dir, "Folder for checkpoints");
  verb->add_option("--ckpt-every", options->ckpt_every, "Time between ordered saves, such as 10m");
  verb->add_option("--workdir",
                   options->workdir,
                   "Where it runs; default: this folder, or one of the job's own from /");
  verb->add_option("--count", options->count, "An array of so many jobs");
  AddAfterOption(*verb, options->after);
  verb->add_flag("-f,--follow", options->submit.follow, "Show its output until it ends");
  verb->add_flag("--wait", options->submit.wait, "Wait, and return the job's own exit code");
  verb->add_flag("--print-spec", options->print_spec, "Print the spec, submit nothing");
  verb->add_option("command", options->stray)->group("");
  verb->callback([options, &context] { context.exit_code = Run(context, *options); });
}

}  // namespace tide::cli
