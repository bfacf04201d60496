// tide admin audit: who did what, who was refused, and who looked at whose.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

constexpr int64_t kPageMost = 1000;

struct AuditOptions {
  std::string since;
  std::string until;
  std::string user;
  std::string operation;
  int64_t from = 1;
  int64_t limit = std::numeric_limits<int64_t>::max();
};

std::string PathOf(const AuditOptions& options, int64_t from, int64_t most) {
  std::string path = "/v1/audit?from=" + std::to_string(from) + "&limit=" + std::to_string(most);
  for (const auto& [key, value] : {std::pair("since", &options.since),
                                   std::pair("until", &options.until),
                                   std::pair("user", &options.user),
                                   std::pair("operation", &options.operation)}) {
    path += value->empty() ? "" : std::string("&") + key + "=" + UrlStep(*value);
  }
  return path;
}

Table AuditTable(const json& page) {
  Table table({{.title = "SEQ", .right = true},
               {.title = "AT"},
               {.title = "USER"},
               {.title = "ADDRESS", .drop_rank = 1, .hide_empty = true},
               {.title = "OPERATION"},
               {.title = "OBJECT"},
               {.title = "OF", .hide_empty = true},
               {.title = "OUTCOME"},
               {.title = "DETAIL", .min_width = 10, .hide_empty = true}});
  for (const json& entry : Items(page, "items")) {
    table.Add({{std::to_string(Number(entry, "seq", 0))},
               {Text(entry, "at")},
               {Text(entry, "user")},
               {Text(entry, "address")},
               {Text(entry, "operation")},
               {Text(entry, "object")},
               {Text(entry, "owner")},
               {Text(entry, "outcome")},
               {Text(entry, "detail")}});
  }
  return table;
}

// Prints page by page: an audit is longer than memory should hold. One JSON object has to be whole.
int PrintAudit(Context& context, const AuditOptions& options) {
  json all = json::array();
  int64_t from = options.from;
  for (int64_t left = options.limit; left > 0 && from > 0;) {
    const auto page = context.Get(PathOf(options, from, std::min(left, kPageMost)));
    if (!page) {
      return context.Report(page.error());
    }
    from = Number(*page, "next_from", 0);
    left -= static_cast<int64_t>(Items(*page, "items").size());
    if (context.format() == Format::kJson) {
      const json& items = Items(*page, "items");
      all.insert(all.end(), items.begin(), items.end());
    } else {
      context.PrintList(*page, "request_id", [&page] { return AuditTable(*page); });
    }
  }
  if (context.format() == Format::kJson) {
    context.PrintJson({{"items", std::move(all)}, {"next_from", from > 0 ? json(from) : json()}});
  }
  return kExitOk;
}

}  // namespace

void AddAuditVerb(CLI::App& admin, Context& context) {
  CLI::App* verb = admin.add_subcommand(
      "audit", "Who did what, was refused, or looked at another's; -o jsonl to keep it elsewhere");
  const auto options = std::make_shared<AuditOptions>();
  verb->add_option("--since", options->since, "Not before: 10m, 2h, 1d ago, or a time");
  verb->add_option("--until", options->until, "Before; written like --since");
  verb->add_option("--user", options->user, "Of this user alone");
  verb->add_option("--operation", options->operation, "Of this one alone, such as jobs.inside");
  verb->add_option("--from", options->from, "The first entry's number")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
  verb->add_option("--limit", options->limit, "At most so many; all without it")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
  verb->callback([options, &context] { context.exit_code = PrintAudit(context, *options); });
}

}  // namespace tide::cli
