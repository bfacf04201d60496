#include "scheduler/store/open_database.h"

#include <sys/stat.h>

#include <cerrno>

#include "common/base/file.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/postgres_address.h"
#include "scheduler/store/postgres_database.h"
#include "scheduler/store/sqlite_database.h"

namespace tide {
namespace {

constexpr std::string_view kSqlite = "sqlite:";

Result<std::unique_ptr<Database>> OpenFor(const std::string& address, SqliteAccess access) {
  if (IsPostgresAddress(address)) {
    return OpenPostgres(address);
  }
  if (address.starts_with(kSqlite) && address.size() > kSqlite.size()) {
    return OpenSqlite(address.substr(kSqlite.size()), access);
  }
  return Fail(ErrorCode::kInvalidArgument,
              "--store " + (MayHoldPassword(address) ? "address" : address) +
                  " is not of the form sqlite:/path/to/tide.db, "
                  "postgres://USER@HOST:PORT/DATABASE or \"postgresql:host=HOST dbname=DATABASE\"");
}

std::unexpected<Error> NoStore(const std::string& what) {
  return Fail(ErrorCode::kNotFound,
              what +
                  ": correct --store if it names the wrong place; where a new cluster is to begin, "
                  "make its store once with tide-scheduler --init");
}

}  // namespace

Result<std::unique_ptr<Database>> OpenDatabase(const std::string& address) {
  auto database = OpenFor(address, SqliteAccess::kExisting);
  if (!database) {
    const bool of_file = !IsPostgresAddress(address);
    return of_file && database.error().code == ErrorCode::kNotFound
               ? NoStore(database.error().message)
               : std::unexpected(database.error());
  }
  TIDE_ASSIGN(const bool there, HoldsStore(**database));
  if (!there) {
    return NoStore((*database)->Name() + " holds no store of Tide");
  }
  return database;
}

Result<std::unique_ptr<Database>> OpenDatabaseToMake(const std::string& address) {
  return OpenFor(address, SqliteAccess::kExclusive);
}

Result<std::unique_ptr<Database>> OpenDatabaseToRead(const std::string& address) {
  return OpenFor(address, SqliteAccess::kReader);
}

Result<std::string> StoreAddress(const std::string& store, const std::string& store_file) {
  if (!store_file.empty()) {
    return ReadAddressFile(store_file);
  }
  TIDE_TRY(CheckHasNoPassword(store));
  return store;
}

Status CheckHasNoPassword(const std::string& address) {
  if (!IsPostgresAddress(address)) {
    return {};
  }
  TIDE_ASSIGN(const PostgresAddress parsed, ParsePostgresAddress(address));
  if (parsed.has_password) {
    return Fail(ErrorCode::kInvalidArgument,
                "--store holds a password, which everybody on this machine can read: write the "
                "address into a file of mode 600 and name it with --store-file, or leave the "
                "password to PGPASSFILE");
  }
  return {};
}

Result<std::string> ReadAddressFile(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                FailErrno("cannot read --store-file " + path, errno).error().message);
  }
  if ((info.st_mode & 077U) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--store-file " + path + " can be read by others; chmod 600 " + path);
  }
  TIDE_ASSIGN(std::string text, ReadFile(path, 65536));
  text.resize(std::min(text.size(), text.find('\n')));
  constexpr const char* kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                "--store-file " + path + " is empty: its first line is the address of the store");
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace tide
