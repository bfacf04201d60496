#include "scheduler/store/postgres_errors.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

using Catch::Contains;

TEST_CASE("what PostgreSQL says becomes a code and a way out", "[postgres]") {
  const auto [sqlstate, code, words] = GENERATE(table<std::string, ErrorCode, std::string>({
      {"", ErrorCode::kUnavailable, "check its address"},
      {"08006", ErrorCode::kUnavailable, "network"},
      {"08P01", ErrorCode::kInternal, "parameters"},
      {"22021", ErrorCode::kInvalidArgument, "not accepted"},
      {"25006", ErrorCode::kUnavailable, "name the primary"},
      {"25P03", ErrorCode::kUnavailable, "paused too long"},
      {"28P01", ErrorCode::kPermissionDenied, "pg_hba.conf"},
      {"3D000", ErrorCode::kNotFound, "CREATE DATABASE"},
      {"3F000", ErrorCode::kPermissionDenied, "search_path"},
      {"40001", ErrorCode::kUnavailable, "rolled the transaction back"},
      {"40P01", ErrorCode::kUnavailable, "rolled the transaction back"},
      {"42501", ErrorCode::kPermissionDenied, "GRANT"},
      {"42601", ErrorCode::kStorage, "statement failed"},
      {"42P01", ErrorCode::kNotFound, "table is missing"},
      {"53100", ErrorCode::kStorage, "free space"},
      {"53200", ErrorCode::kStorage, "memory"},
      {"53300", ErrorCode::kUnavailable, "max_connections"},
      {"57014", ErrorCode::kUnavailable, "cancelled"},
      {"57P01", ErrorCode::kUnavailable, "shut down"},
      {"57P03", ErrorCode::kUnavailable, "try again"},
      {"58030", ErrorCode::kStorage, "its disk"},
      {"XX001", ErrorCode::kCorrupt, "backup"},
  }));
  CAPTURE(sqlstate);
  const Error error = PostgresError("the database", sqlstate, "it\nsaid so\n");
  CHECK(error.code == code);
  CHECK_THAT(
      error.message,
      Contains("the database") && Contains(words) && Contains("it said so") && Contains(sqlstate));
  CHECK(error.message.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace tide
