// tide ps: jobs, the active ones and what finished last.

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

constexpr size_t kRecent = 10;

struct PsOptions {
  bool all = false;
  bool me = false;
  std::string state;
  size_t limit = 1000;
  bool expand = false;
};

// Without --all and --state: active jobs, then the ten that finished last.
//   fold: elements of an array are one item.
Answer<json> Fetch(Context& context, const PsOptions& options, bool fold) {
  std::string also = fold ? "arrays=folded" : "";
  if (options.me) {
    also += (also.empty() ? "" : "&") + std::string("user=me");
  }
  const auto with = [&](const std::string& query) {
    return query + (query.empty() || also.empty() ? "" : "&") + also;
  };
  if (options.all || !options.state.empty()) {
    const std::string query =
        options.state.empty() ? "all=true" : "state=" + UrlStep(options.state);
    return context.GetList("/v1/jobs", with(query), options.limit);
  }
  auto active = context.GetList("/v1/jobs", with(""), options.limit);
  const auto finished =
      active ? context.GetList("/v1/jobs", with("state=finished"), kRecent) : active;
  if (!finished) {
    return finished;
  }
  for (const json& job : Items(*finished, "items")) {
    (*active)["items"].push_back(job);
  }
  (*active)["total_estimate"] =
      Number(*active, "total_estimate", 0) + Number(*finished, "total_estimate", 0);
  return active;
}

// Puts the caller's own first, each as it stood among its like.
void MineFirst(json& list) {
  const std::string me = Text(list, "user");
  json mine = json::array();
  json others = json::array();
  for (const json& job : Items(list, "items")) {
    (Text(job, "user") == me ? mine : others).push_back(job);
  }
  mine.insert(mine.end(), others.begin(), others.end());
  list["items"] = std::move(mine);
}

// One line for all elements; what differs between them is left out.
std::vector<Cell> ArrayRow(const json& job, const json& elements, const Style& style) {
  const json& spec = Member(job, "spec");
  return {{Text(elements, "array") + "[]"},
          {Text(spec, "name")},
          {Text(job, "user")},
          StateCell(ElementWord(elements), style),
          {std::to_string(Number(Member(spec, "resources"), "nodes", 0))},
          {Text(Member(spec, "placement"), "zone")},
          {Text(spec, "priority")},
          {""},
          {""},
          {""},
          {""},
          {ElementCounts(elements)}};
}

Table JobTable(const json& list, const Style& style) {
  Table table({{.title = "ID"},
               {.title = "NAME", .min_width = 12},
               {.title = "USER", .drop_rank = 5},
               {.title = "STATE"},
               {.title = "NODES", .right = true},
               {.title = "ZONE", .drop_rank = 4},
               {.title = "PRIO", .drop_rank = 3},
               {.title = "RUN", .right = true},
               {.title = "WAIT", .right = true, .drop_rank = 1},
               {.title = "SUSP", .right = true, .drop_rank = 2},
               {.title = "PROGRESS", .hide_empty = true},
               {.title = "NOTE", .min_width = 16, .hide_empty = true}});
  const Instant now = SystemNow();
  std::set<std::string> shown;
  for (const json& job : Items(list, "items")) {
    const json& spec = Member(job, "spec");
    if (const json& elements = Member(job, "elements"); elements.is_object()) {
      // Perhaps it has both active elements and some that ended just now.
      if (shown.insert(Text(elements, "array")).second) {
        table.Add(ArrayRow(job, elements, style));
      }
      continue;
    }
    table.Add({{Text(job, "id")},
               {Text(spec, "name")},
               {Text(job, "user")},
               StateCell(JobWord(job), style),
               {std::to_string(Number(Member(spec, "resources"), "nodes", 0))},
               {Text(Member(spec, "placement"), "zone")},
               {Text(spec, "priority")},
               {FormatDuration(RunTime(job, now))},
               {FormatDuration(WaitTime(job, now))},
               {std::to_string(Number(job, "suspensions", 0))},
               {Progress(job)},
               {Note(job, now)}});
  }
  return table;
}

void SayMore(const Context& context, const json& list) {
  const json& items = Items(list, "items");
  if (items.empty()) {
    context.Hint("No jobs. Start one: tide run -- python3 -c 'print(1)'");
    return;
  }
  const auto total = static_cast<size_t>(Number(list, "total_estimate", 0));
  if (total > items.size()) {
    context.Hint(std::to_string(items.size()) + " of " + std::to_string(total) +
                 " jobs. More: tide ps --all");
  }
  for (const json& job : items) {
    if (Text(job, "state") == "queued" && Text(job, "shown") != "outline") {
      context.Hint("tide why " + Printable(Text(job, "id")) + " explains the wait.");
      return;
    }
  }
}

int Ps(Context& context, const PsOptions& options) {
  const bool fold = context.format() == Format::kTable && !options.expand;
  auto list = Fetch(context, options, fold);
  if (!list) {
    return context.Report(list.error());
  }
  MineFirst(*list);
  context.PrintList(*list, "id", [&] { return JobTable(*list, context.OutStyle()); });
  if (context.format() == Format::kTable) {
    SayMore(context, *list);
  }
  return kExitOk;
}

}  // namespace

void AddPsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<PsOptions>();
  CLI::App* verb = app.add_subcommand("ps", "List jobs");
  verb->add_flag("-a,--all", options->all, "All jobs, also long finished ones");
  verb->add_flag("--me", options->me, "Only your own");
  verb->add_option("--state", options->state, "Only these states or outcomes: queued,failed");
  verb->add_flag("--expand", options->expand, "A line for each element of an array");
  verb->add_option("--limit", options->limit, "At most this many")->check(CLI::Range(1, 1'000'000));
  verb->callback([options, &context] { context.exit_code = Ps(context, *options); });
}

}  // namespace tide::cli
