// tide sim: replays a trace of jobs under a policy, in virtual time. Asks no server.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ranges>

#include "cli/context.h"
#include "cli/sim_chaos.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/spec/zone_rule.h"
#include "sim/mix.h"
#include "sim/results.h"
#include "sim/simulate.h"

namespace tide::cli {
namespace {

struct SimVerbOptions {
  sim::SimOptions sim;
  ChaosFlags chaos;
  std::string users = "job";
  std::string projects = "none";
  std::string saves = "share:1";
  std::vector<std::string> policies;
  std::string placement;
  std::string json_out;
  std::string jobs_out;
  std::string trace_out;
};

int ExitCodeOf(const Error& error) {
  if (error.code == ErrorCode::kInvalidArgument) {
    return kExitUsage;
  }
  if (error.code == ErrorCode::kNotFound) {
    return kExitNotFound;
  }
  return error.code == ErrorCode::kNeverFits ? kExitNeverFits : kExitFailed;
}

// Of a file with several mistakes each has its line.
int Fail(Context& context, const Error& error) {
  const size_t first_end = std::min(error.message.find('\n'), error.message.size());
  const int code =
      context.Report({ExitCodeOf(error), error.message.substr(0, first_end), {}, false});
  for (const auto line : std::views::split(error.message.substr(first_end), '\n')) {
    if (!line.empty()) {
      std::fprintf(stderr, "%s\n", Printable(std::string_view(line)).c_str());
    }
  }
  return code;
}

// Each policy has one placement: the published rules for the references, the scheduler's own for
// time-sharing. Naming the other one is a mistake worth a word.
Status CheckPlacement(const SimVerbOptions& options) {
  for (const std::string& policy : options.policies) {
    const std::string own = policy == "time-sharing" ? "tide" : "helios";
    if (!options.placement.empty() && options.placement != own) {
      return tide::Fail(ErrorCode::kInvalidArgument,
                        "--placement " + options.placement + " does not go with --policy " +
                            policy + ", which places by the rules of " + own + "; leave it out");
    }
  }
  if (options.policies.size() > 1 && !options.jobs_out.empty()) {
    return tide::Fail(ErrorCode::kInvalidArgument, "--jobs is for one policy; name only one");
  }
  return {};
}

Status Write(const std::string& path, const std::string& text) {
  return path.empty() ? Status() : WriteFileDurably(path, text, 0644);
}

// One simulation for each policy, then the figures.
Status RunAll(const Context& context, SimVerbOptions& options) {
  std::vector<sim::Results> runs;
  for (const std::string& policy : options.policies) {
    options.sim.policy = policy;
    TIDE_ASSIGN(const sim::Simulation simulation, sim::Simulate(options.sim));
    runs.push_back(sim::Summarize(simulation.run));
    TIDE_TRY(Write(options.trace_out, sim::ToCsv(simulation.trace)));
    TIDE_TRY(Write(options.jobs_out, sim::ToJobsCsv(simulation.trace, simulation.run)));
  }
  const bool one = runs.size() == 1;
  const std::string figures = one ? sim::ToJson(runs.front()) : sim::ToJson(runs);
  TIDE_TRY(Write(options.json_out, figures));
  const std::string text = one ? sim::ToText(runs.front()) : sim::ToComparison(runs);
  context.Print(context.format() == Format::kTable ? text : figures);
  return {};
}

int Run(Context& context, SimVerbOptions& options) {
  if (options.chaos.on) {
    return RunChaosWorlds(context, options.chaos);
  }
  if (options.policies.empty()) {
    return Fail(context,
                {ErrorCode::kInvalidArgument, "--policy is missing; name one, or ask for --chaos"});
  }
  const auto users = sim::ParseUserRule(options.users);
  if (!users) {
    return Fail(context, {users.error().code, "--users: " + users.error().message});
  }
  options.sim.users = *users;
  const auto projects = sim::ParseProjectRule(options.projects);
  if (!projects) {
    return Fail(context, {projects.error().code, "--projects: " + projects.error().message});
  }
  options.sim.projects = *projects;
  const auto saves = sim::ParseSavesRule(options.saves);
  if (!saves) {
    return Fail(context, {saves.error().code, "--saves: " + saves.error().message});
  }
  options.sim.saves = *saves;
  Status status = CheckPlacement(options);
  if (status) {
    status = RunAll(context, options);
  }
  return status ? kExitOk : Fail(context, status.error());
}

void AddTimeSharingOptions(CLI::App& verb, sim::SimOptions& sim) {
  verb.add_option("--save-s", sim.save_s, "Of that cost, seconds for saving; a third")
      ->check(CLI::Range(0, 86'400));
  verb.add_option("--start-s", sim.start_s, "Seconds of a job's first start; 0")
      ->check(CLI::Range(0, 86'400));
  verb.add_option(
      "--policy-file", sim.policy_file, "Policy of the scheduler (configs/policy.yaml)");
  verb.add_option(
          "--zone", sim.zone, "Zone rule of every job: cross-ok, cross-ok:N or single; cross-ok")
      ->check(
          [](const std::string& rule) {
            return !IsNamedZone(rule) && ZonesMax(rule) > 0
                       ? std::string()
                       : "a zone rule is single, cross-ok or cross-ok:N";
          },
          "RULE");
  verb.add_option(
      "--faults", sim.faults, "Trace of faults, file of rates, or faults per 1000 node-days");
  verb.add_option("--checkpoint-every-s",
                  sim.checkpoint_every_s,
                  "With --faults: seconds of work between checkpoints; 300")
      ->check(CLI::Range(1, 1'000'000));
  verb.add_option(
          "--checkpoint-cost-s", sim.checkpoint_cost_s, "Seconds that ranks wait for each; 1")
      ->check(CLI::Range(0.0, 86'400.0));
  verb.add_option("--isolation-s",
                  sim.isolation_s,
                  "Seconds after which agents that are cut off end their tasks; 600")
      ->check(CLI::Range(1, 86'400));
  verb.add_option("--witness-s",
                  sim.witness_s,
                  "The same for tasks of gangs without a witness; 60, 0 = as others")
      ->check(CLI::Range(0, 86'400));
}

}  // namespace

void AddSimVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<SimVerbOptions>();
  CLI::App* verb =
      app.add_subcommand("sim", "Replay a trace of jobs under a policy, in virtual time");
  sim::SimOptions& sim = options->sim;
  verb->add_option("--trace", sim.trace, "CSV of jobs, plain or gzip");
  verb->add_option(
          "--mix-days", sim.mix_days, "Instead: a synthetic mix of 1.35 times the capacity")
      ->check(CLI::Range(0.01, 1000.0));
  verb->add_option(
      "--write-trace", options->trace_out, "Write the jobs, as simulated, to this file");
  verb->add_option("--policy", options->policies, "Who runs when; several, by commas, are compared")
      ->delimiter(',')
      ->check(CLI::IsMember(sim::PolicyNames()));
  verb->add_option("--cluster", sim.cluster, "Cluster file (configs/)");
  verb->add_option("--nodes", sim.nodes, "Instead: this many equal nodes in one zone")
      ->check(CLI::Range(1, 100'000));
  verb->add_option("--gpus-per-node", sim.gpus_per_node, "GPUs of each of them; 8")
      ->check(CLI::Range(1, 64));
  verb->add_option(
          "--placement", options->placement, "tide or helios; the policy's own if left out")
      ->check(CLI::IsMember({"tide", "helios"}));
  verb->add_option("--users", options->users, "Whose the jobs are: job, column, or a number; job");
  verb->add_option("--projects",
                   options->projects,
                   "Projects of the jobs: none, or column, the trace's `group`; none");
  verb->add_option(
      "--saves", options->saves, "Jobs that save, and how often, as share:0.7,every:30m; all");
  verb->add_option("--seed", sim.seed, "For everything drawn at random; 1");
  verb->add_option("--compress", sim.compress, "Divide submit times by this; 1")
      ->check(CLI::Range(0.001, 1e6));
  verb->add_option("--preempt-cost-s",
                   sim.preempt_cost_s,
                   "Seconds a suspension costs a job, in all; left out: as published, else 60")
      ->check(CLI::Range(0, 86'400));
  AddTimeSharingOptions(*verb, sim);
  AddChaosFlags(*verb, options->chaos);
  verb->add_option("--json", options->json_out, "Write the figures to this file");
  verb->add_option("--jobs", options->jobs_out, "Write one line per job to this file, as CSV");
  verb->footer(
      "A trace has the columns "
      "job_id,submit_s,duration_s,gpus,gpus_per_node,user,group,status,kind.\n"
      "What the figures mean: docs/guide/simulator.md.");
  verb->callback([options, &context] { context.exit_code = Run(context, *options); });
}

}  // namespace tide::cli
