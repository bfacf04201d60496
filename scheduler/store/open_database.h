#pragma once
// The database that an address of `tide-scheduler --store` names.

#include <memory>
#include <string>

#include "scheduler/store/database.h"

namespace tide {

// Opens the database of a scheduler that has its store there; creates nothing.
//   address: "sqlite:/path/to/tide.db", or what postgres_address.h takes.
//   Errors: kInvalidArgument for another form; kNotFound where no store is; those of OpenSqlite and
//   OpenPostgres.
[[nodiscard]] Result<std::unique_ptr<Database>> OpenDatabase(const std::string& address);

// Opens the same for one that makes a store: with SQLite the file is created when missing.
[[nodiscard]] Result<std::unique_ptr<Database>> OpenDatabaseToMake(const std::string& address);

// Opens the same beside a scheduler that may be running: creates nothing.
//   Errors: also kNotFound for a file that is not there.
[[nodiscard]] Result<std::unique_ptr<Database>> OpenDatabaseToRead(const std::string& address);

// The address that --store or --store-file says; one of them is "".
//   Errors: those of the two functions below.
[[nodiscard]] Result<std::string> StoreAddress(const std::string& store,
                                               const std::string& store_file);

// An address on a command line is everybody's to read.
//   Errors: kInvalidArgument when it holds a password.
[[nodiscard]] Status CheckHasNoPassword(const std::string& address);

// The address in a file's first line, without the blanks around it.
//   Errors: kInvalidArgument when the file is empty, cannot be read, or others may read it.
[[nodiscard]] Result<std::string> ReadAddressFile(const std::string& path);

}  // namespace tide
