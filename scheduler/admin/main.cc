// tide-admin: backup, restore, snapshot and migrate --check, on the store itself (README.md).
// People call it as `tide admin`.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "common/base/exit_codes.h"
#include "scheduler/admin/backup.h"
#include "scheduler/admin/migration_check.h"
#include "scheduler/admin/restore.h"
#include "scheduler/store/open_database.h"
#include "scheduler/store/store_exit_code.h"

namespace tide::admin {
namespace {

struct Options {
  std::string store;
  std::string store_file;
  std::string file;
  bool with_commands = false;
  bool check = false;
  bool snapshot = false;
  uint64_t skip_job_ids = 1'000'000;
  int64_t least_term = 0;
};

int Complain(const std::string& message, int code) {
  std::fprintf(stderr, "tide admin: %s\n", message.c_str());
  return code;
}

// Of a store that could not be opened, as the scheduler ends then.
int ReportOpening(const Error& error) {
  return Complain(error.message, StoreExitCode(error, kExitStore));
}

int Report(const Error& error) {
  if (error.code == ErrorCode::kNotFound) {
    return Complain(error.message, kExitNotFound);
  }
  if (error.code == ErrorCode::kAlreadyExists) {
    return Complain(error.message, kExitConflict);
  }
  if (error.code == ErrorCode::kSystem) {
    return Complain(error.message, kExitFailed);
  }
  return ReportOpening(error);
}

enum class Access {
  kBesideScheduler,
  kAsScheduler,
};

Result<std::unique_ptr<Database>> Open(const Options& options, Access access) {
  TIDE_ASSIGN(const std::string address, StoreAddress(options.store, options.store_file));
  auto database =
      access == Access::kAsScheduler ? OpenDatabaseToMake(address) : OpenDatabaseToRead(address);
  if (!database && database.error().code == ErrorCode::kNotFound) {
    database.error().message += ": check the path of --store";
  }
  return database;
}

std::string RowsInWords(const RowCounts& rows) {
  int64_t all = 0;
  for (const auto& [table, count] : rows) {
    all += count;
  }
  return std::to_string(all) + " rows of " + std::to_string(rows.size()) + " tables";
}

int Dump(const Options& options, DumpKind kind) {
  auto file = DumpWriter::Create(options.file);
  if (!file) {
    return Report(file.error());
  }
  auto database = Open(options, Access::kBesideScheduler);
  if (!database) {
    return ReportOpening(database.error());
  }
  const auto written =
      WriteDump(**database, **file, {kind, options.with_commands, SystemNow(), TIDE_VERSION});
  if (!written) {
    return Report(written.error());
  }
  std::fprintf(stderr,
               "%s of %s: schema %d, %s, %zu bytes\n",
               kind == DumpKind::kBackup ? "backup" : "snapshot",
               (*database)->Name().c_str(),
               written->schema,
               RowsInWords(written->rows).c_str(),
               (*file)->bytes());
  return kExitOk;
}

// A SQLite file that is not there, of which the address says where it will be; "" = of no other.
std::string MissingSqliteFile(const std::string& address) {
  constexpr std::string_view kSqlite = "sqlite:";
  const std::string path = address.starts_with(kSqlite) ? address.substr(kSqlite.size()) : "";
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  return status.type() == std::filesystem::file_type::not_found ? path : "";
}

// Takes a database file away again that was not there, unless it was filled, by us or by somebody
// else meanwhile: that is asked under its lock, which keeps everybody else from it. The lock's own
// file stays, as others may be looking at it.
class FreshFile {
 public:
  FreshFile(std::string missing, Database& database) {
    if (missing.empty()) {
      return;
    }
    const auto tables = database.Run("SELECT count(*) FROM sqlite_master", {});
    if (tables && std::get<int64_t>(tables->rows.at(0).at(0)) == 0) {
      path_ = std::move(missing);
    }
  }
  ~FreshFile() {
    if (!path_.empty()) {
      for (const char* part : {"", "-wal", "-shm"}) {
        std::error_code ignored;
        std::filesystem::remove(path_ + part, ignored);
      }
    }
  }
  FreshFile(const FreshFile&) = delete;
  FreshFile& operator=(const FreshFile&) = delete;
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

int DoRestore(const Options& options) {
  auto dump = DumpReader::Open(options.file);
  if (!dump) {
    return Report(dump.error());
  }
  const auto address = StoreAddress(options.store, options.store_file);
  if (!address) {
    return ReportOpening(address.error());
  }
  std::string missing = MissingSqliteFile(*address);
  auto database = Open(options, Access::kAsScheduler);
  if (!database) {
    return ReportOpening(database.error());
  }
  FreshFile fresh(std::move(missing), **database);
  const auto restored =
      Restore(**database,
              **dump,
              {SystemNow(), options.skip_job_ids, options.least_term, options.snapshot});
  if (!restored) {
    return Report(restored.error());
  }
  fresh.Keep();
  std::fprintf(stderr,
               "restored %s: the backup of %s of %s (schema %d, now %d), %s; the next job is "
               "j-%llu, the next term above %lld\n",
               (*database)->Name().c_str(),
               restored->header.taken_at.c_str(),
               restored->header.store.c_str(),
               restored->header.schema,
               restored->schema,
               RowsInWords(restored->rows).c_str(),
               static_cast<unsigned long long>(restored->next_job_id),
               static_cast<long long>(restored->term));
  return kExitOk;
}

int DoCheck(const Options& options) {
  if (!options.check) {
    return Complain("migrations run when a scheduler starts; to see which, add --check",
                    kExitUsage);
  }
  auto database = Open(options, Access::kBesideScheduler);
  if (!database) {
    return ReportOpening(database.error());
  }
  const auto check = CheckMigration(**database, SystemNow());
  if (!check) {
    return Report(check.error());
  }
  std::printf("store    %s\nschema   %d, this program's is %d\n",
              (*database)->Name().c_str(),
              check->schema,
              check->known);
  for (const std::string& name : check->pending) {
    std::printf("pending  %s\n", name.c_str());
  }
  if (check->untried.empty()) {
    std::printf("result   %s; %zu jobs and %zu nodes load; nothing was changed\n",
                check->pending.empty() ? "nothing to migrate" : "the migrations run",
                check->jobs,
                check->nodes);
  } else {
    std::printf("result   not tried: %s\n", check->untried.c_str());
  }
  return kExitOk;
}

CLI::App* AddVerb(CLI::App& app, const char* name, const char* does, Options& options) {
  CLI::App* verb = app.add_subcommand(name, does);
  auto* where = verb->add_option_group("store", "as tide-scheduler takes it; one of these");
  where->add_option("--store", options.store, "sqlite:/path/to/tide.db or postgres://…");
  where->add_option("--store-file", options.store_file, "file of mode 600 with that address");
  where->require_option(1);
  return verb;
}

int Main(int argc, char** argv) {
  Options options;
  int code = kExitOk;
  CLI::App app("Keeps the scheduler's store, on the scheduler's machine.", "tide admin");
  app.require_subcommand(1);

  auto* backup =
      AddVerb(app, "backup", "Write the whole store to a file, also while it is used", options);
  backup->add_option("file", options.file, "File, or - for standard output")->required();
  backup->callback([&] { code = Dump(options, DumpKind::kBackup); });

  auto* restore = AddVerb(app, "restore", "Load a backup into an empty store", options);
  restore->add_option("file", options.file, "File, or - for standard input")->required();
  restore
      ->add_option("--skip-job-ids",
                   options.skip_job_ids,
                   "Leave so many job numbers out, for jobs since the backup; 0 where the old "
                   "store took none after it")
      ->type_name("N")
      ->capture_default_str();
  restore
      ->add_option(
          "--least-term", options.least_term, "Agents have seen this term: lead with a higher one")
      ->type_name("TERM");
  restore->add_flag("--snapshot", options.snapshot, "Also take a snapshot, to look at it");
  restore->callback([&] { code = DoRestore(options); });

  auto* snapshot = AddVerb(
      app,
      "snapshot",
      "Write what a bug report needs: no history, no values of environments, no command lines",
      options);
  snapshot->add_option("file", options.file, "File, or - for standard output")->required();
  snapshot->add_flag("--with-commands", options.with_commands, "With the jobs' command lines");
  snapshot->callback([&] { code = Dump(options, DumpKind::kSnapshot); });

  auto* migrate = AddVerb(
      app, "migrate", "Say what an upgrade would do to the store, and whether it can", options);
  migrate->add_flag("--check", options.check, "Required: change nothing");
  migrate->callback([&] { code = DoCheck(options); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);
    }
    return Complain(std::string(error.what()) + "; see `tide admin --help`", kExitUsage);
  }
  return code;
}

}  // namespace
}  // namespace tide::admin

int main(int argc, char** argv) {
  try {
    return tide::admin::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tide admin: %s; this is a fault of tide itself\n", error.what());
    return tide::kExitFailed;
  }
}
