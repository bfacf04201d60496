#include "scheduler/store/postgres_errors.h"

#include "scheduler/store/text.h"

namespace tide {
namespace {

struct Rule {
  std::string_view sqlstate;  // or its beginning; the first rule that fits counts
  ErrorCode code;
  std::string_view words;
};

constexpr Rule kRules[] = {
    {"08P01", ErrorCode::kInternal, "a statement does not fit its parameters"},
    {"08", ErrorCode::kUnavailable, "the connection broke: check the server and the network"},
    {"22", ErrorCode::kInvalidArgument, "a value is not accepted"},
    {"25006",
     ErrorCode::kUnavailable,
     "it is read-only: name the primary server, or end default_transaction_read_only"},
    {"25P03", ErrorCode::kUnavailable, "the server ended a transaction that paused too long"},
    {"28",
     ErrorCode::kPermissionDenied,
     "the server refuses this user: check user, password (PGPASSFILE, --store-file) and the "
     "server's pg_hba.conf"},
    {"3D000",
     ErrorCode::kNotFound,
     "there is no such database: create it (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE "
     "template0), or correct the address"},
    {"3F000",
     ErrorCode::kPermissionDenied,
     "there is no schema to create tables in: create one that is in this user's search_path"},
    {"40", ErrorCode::kUnavailable, "the server rolled the transaction back"},
    {"42P01", ErrorCode::kNotFound, "a table is missing"},
    {"42501",
     ErrorCode::kPermissionDenied,
     "this user lacks a privilege: let it own the database's schema and tables (GRANT ALL ON "
     "SCHEMA … TO …, REASSIGN OWNED)"},
    {"53100",
     ErrorCode::kStorage,
     "no space left on the server: free space there and start again; all acknowledged work is "
     "kept"},
    {"53300",
     ErrorCode::kUnavailable,
     "the server has no free connection: end some, or raise max_connections"},
    {"53", ErrorCode::kStorage, "the server lacks memory or another resource"},
    {"55P03", ErrorCode::kUnavailable, "another transaction holds a lock"},
    {"57P03", ErrorCode::kUnavailable, "the server starts, stops or recovers: try again later"},
    {"57P", ErrorCode::kUnavailable, "the server shut down or ended this connection"},
    {"57014", ErrorCode::kUnavailable, "the statement was cancelled on the server"},
    {"58",
     ErrorCode::kStorage,
     "the server cannot read or write its files: look at its log and its disk"},
    {"XX001", ErrorCode::kCorrupt, "the server found damaged data: restore it from a backup"},
    {"XX002",
     ErrorCode::kCorrupt,
     "the server found a damaged index: REINDEX, or restore a backup"},
    {"", ErrorCode::kStorage, "statement failed"},
};

}  // namespace

Error PostgresError(const std::string& name, std::string_view sqlstate, std::string_view text) {
  const std::string said = OneLine(text);
  if (sqlstate.empty()) {
    return {ErrorCode::kUnavailable,
            name + " cannot be reached: check its address, that it runs, and the network (" + said +
                ")"};
  }
  for (const Rule& rule : kRules) {
    if (sqlstate.starts_with(rule.sqlstate)) {
      return {rule.code,
              name + ": " + std::string(rule.words) + " (PostgreSQL " + std::string(sqlstate) +
                  ": " + said + ")"};
    }
  }
  return {ErrorCode::kInternal, name + ": " + said};
}

}  // namespace tide
