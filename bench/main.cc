// tide-bench: measures Tide. `tide-bench --list` names the benchmarks.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/daemons/bench_cluster.h"
#include "bench/daemons/bench_store.h"
#include "bench/output.h"
#include "common/base/exit_codes.h"

namespace tide::bench {
namespace {

struct Options {
  std::vector<std::string> names;
  RunOptions run;
  bool json = false;
  bool markdown = false;
  bool list = false;
};

const Bench* FindBench(std::string_view name) {
  const auto benches = Benches();
  const auto it = std::find_if(
      benches.begin(), benches.end(), [&](const Bench& bench) { return bench.name == name; });
  return it == benches.end() ? nullptr : &*it;
}

int List() {
  for (const Bench& bench : Benches()) {
    std::printf("%-12.*s %.*s\n",
                static_cast<int>(bench.name.size()),
                bench.name.data(),
                static_cast<int>(bench.what.size()),
                bench.what.data());
  }
  return kExitOk;
}

int RunAll(const Options& options, const std::vector<const Bench*>& chosen) {
  const Machine machine = ReadMachine();
  if (!options.json) {
    std::printf("%s\n\n", DescribeMachine(machine).c_str());
  }
  if (!options.json && !options.markdown) {
    std::fputs(TableHeader().c_str(), stdout);
  }
  RunOptions asked = options.run;
  if (!options.markdown) {
    asked.on_figure = [&](const Figure& figure) {
      std::fputs(
          options.json ? (JsonLine(figure, machine) + "\n").c_str() : TableRow(figure).c_str(),
          stdout);
      std::fflush(stdout);
    };
  }
  size_t figures = 0;
  bool failed = false;
  for (const Bench* bench : chosen) {
    Run run(bench->name, asked);
    bench->run(run);
    figures += run.figures().size();
    if (!run.failure().empty()) {
      failed = true;
      std::fprintf(stderr,
                   "tide-bench: %.*s: %s\n",
                   static_cast<int>(bench->name.size()),
                   bench->name.data(),
                   run.failure().c_str());
    }
    if (options.markdown) {
      std::printf(
          "%s\n",
          (bench->markdown != nullptr ? bench->markdown : MarkdownTable)(run.figures()).c_str());
    }
  }
  if (failed) {
    return kExitFailed;
  }
  if (figures == 0) {
    std::fprintf(stderr,
                 "tide-bench: no case of these benchmarks contains \"%s\"; leave --filter out to "
                 "see all\n",
                 options.run.filter.c_str());
    return kExitUsage;
  }
  return kExitOk;
}

int Main(int argc, char** argv) {
  Options options;
  std::string store;
  CLI::App app("Measures Tide and compares with its targets");
  app.add_option("NAME", options.names, "benchmarks to run (none: all)");
  app.add_option("--filter", options.run.filter, "only cases that contain this text");
  app.add_option("--store", store, "durable path: only on this store (none: on both)")
      ->check(CLI::IsMember({"sqlite", "postgresql"}));
  app.add_flag("--json", options.json, "one JSON line for each figure");
  app.add_flag("--markdown", options.markdown, "a table for docs/measurements.md")
      ->excludes("--json");
  app.add_flag("--quick", options.run.quick, "tiny sizes: checks the benchmarks, measures nothing");
  app.add_flag("--large",
               options.run.large,
               "also sizes that take more than a third of the memory that is free");
  bool without_tls = false;
  app.add_flag("--without-tls", without_tls, "daemons talk in clear, to see what TLS costs");
  app.add_flag("--list", options.list, "names the benchmarks");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (options.list) {
    return List();
  }
  if (without_tls) {
    MeasureWithoutTls();
  }
  if (!store.empty()) {
    options.run.stores = {store == "sqlite" ? StoreKind::kSqlite : StoreKind::kPostgres};
    if (!IsInstalled(options.run.stores.front())) {
      std::fprintf(stderr, "tide-bench: PostgreSQL is not installed: run scripts/setup\n");
      return kExitUsage;
    }
  }
  std::vector<const Bench*> chosen;
  for (const std::string& name : options.names) {
    chosen.push_back(FindBench(name));
    if (chosen.back() == nullptr) {
      std::fprintf(stderr,
                   "tide-bench: there is no benchmark \"%s\"; `tide-bench --list` names them\n",
                   name.c_str());
      return kExitUsage;
    }
  }
  if (chosen.empty()) {
    for (const Bench& bench : Benches()) {
      if (!bench.only_by_name) {
        chosen.push_back(&bench);
      }
    }
  }
  return RunAll(options, chosen);
}

}  // namespace
}  // namespace tide::bench

int main(int argc, char** argv) {
  return tide::bench::Main(argc, argv);
}
