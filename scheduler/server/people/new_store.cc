#include "scheduler/server/people/new_store.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "scheduler/server/people/first_admin.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/open_database.h"
#include "scheduler/store/store.h"

namespace tide {
namespace {

Status CheckHoldsNone(Database& database) {
  TIDE_ASSIGN(const bool there, HoldsStore(database));
  if (!there) {
    return {};
  }
  return Fail(ErrorCode::kAlreadyExists,
              database.Name() +
                  " holds a store already, nothing was changed: start without --init, or name "
                  "another place for a new cluster");
}

// Beside a scheduler that may be using it.
Status CheckHoldsNone(const std::string& address) {
  const auto database = OpenDatabaseToRead(address);
  if (!database) {
    return database.error().code == ErrorCode::kNotFound ? Status()
                                                         : std::unexpected(database.error());
  }
  return CheckHoldsNone(**database);
}

}  // namespace

Status MakeStore(const NewStore& wanted) {
  TIDE_TRY(CheckHoldsNone(wanted.address));
  const Instant now = SystemNow();
  std::vector<PeopleRecord> people;
  if (!wanted.admin_token_file.empty()) {  // first: with a bad token nothing is made
    auto admin = FirstAdmin(wanted.admin, wanted.admin_token_file, now);
    if (!admin) {
      return Fail(ErrorCode::kInvalidArgument, admin.error().message);
    }
    people = *std::move(admin);
  }
  TIDE_ASSIGN(auto database, OpenDatabaseToMake(wanted.address));
  TIDE_TRY(CheckHoldsNone(*database));  // nor was it made meanwhile
  TIDE_ASSIGN(const auto store, Store::Open(std::move(database), wanted.holder, now));
  TIDE_ASSIGN(const ClusterState state, store->Load());
  for (PeopleRecord& record : people) {
    store->Stage(std::move(record));
  }
  TIDE_TRY(store->Commit(state, {}, now));
  log::Info("Store made",
            {{"Database", store->database().Name()},
             {"Cluster", store->cluster_id()},
             {"Admin", people.empty() ? "none" : wanted.admin},
             {"TokenFile", wanted.admin_token_file}});
  return store->Release(now);
}

}  // namespace tide
