// A bit that flips in what is loaded is found and named, wherever it is.

#include "scheduler/store/summed_rows.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <set>

#include "common/base/file.h"
#include "scheduler/store/archive.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/people.h"
#include "scheduler/store/row_sum.h"
#include "scheduler/store/secrets.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::Driver;
using testing::kNow;
using testing::MakeDatabase;
using testing::RandomWorld;

void StagePeople(Store& store) {
  store.Stage(SecretRow{{"ann", "hf-token"}, "sealed-\x01", kNow});
  User ann;
  ann.number = 1;
  ann.name = "ann";
  ann.uid = 20017;
  ann.gids = {44};
  store.Stage(PeopleRecord(ann));
  Project vision;
  vision.number = 1;
  vision.name = "vision";
  vision.members = {{"ann", 30, true}};
  store.Stage(PeopleRecord(vision));
  Token token;
  token.number = 1;
  token.user = "ann";
  token.sha256 = std::string(64, 'a');
  store.Stage(PeopleRecord(token));
}

// A store with rows in each table.
std::unique_ptr<Store> FilledStore(std::unique_ptr<Database> database) {
  auto store = Store::Open(std::move(database), "a", kNow);
  REQUIRE(store);
  Policy policy;
  policy.finished_max = 1;
  RandomWorld world(2, ClusterState(), policy);
  for (int turn = 0; turn < 40 || (turn < 400 && world.state().archived_runs.empty()); ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  StagePeople(**store);
  REQUIRE((*store)->Commit(world.state(), {}, world.now()));
  return *std::move(store);
}

SqlRows Raw(Database& database, const StoredTable& table) {
  auto found = database.Run(
      "SELECT " + table.list() + " FROM " + table.name() + " ORDER BY " + table.key_list(), {});
  REQUIRE(found);
  return *std::move(found);
}

// Returns the state that a scheduler starts with, as text.
Result<std::string> LoadAll(Database& database) {
  TIDE_ASSIGN(const ClusterState state, LoadState(database));
  std::string all = EncodeState(state);
  TIDE_ASSIGN(const std::vector<SecretRow> secrets, LoadSecrets(database));
  for (const SecretRow& row : secrets) {
    all += row.id.owner + row.id.name + row.sealed + FormatRfc3339(row.changed_at);
  }
  TIDE_ASSIGN(const StoredPeople people, LoadPeople(database));
  for (const auto& [number, user] : people.directory.users()) {
    all += user.name + std::to_string(number) + std::to_string(user.uid);
  }
  for (const auto& [number, token] : people.directory.tokens()) {
    all += token.user + token.sha256;
  }
  TIDE_ASSIGN(const SqlRows cluster, ReadRows(database, Tables().cluster));
  all += std::get<std::string>(cluster.rows.at(0).at(0));
  return all;
}

// Looks at each archived job, as people ask for them.
Status LookIntoArchive(Database& database) {
  TIDE_ASSIGN(const SqlRows found, database.Run("SELECT id FROM archived_jobs", {}));
  for (const SqlRow& row : found.rows) {
    const auto id = static_cast<uint64_t>(std::get<int64_t>(row.at(0)));
    TIDE_TRY(LoadArchivedJob(database, JobId(id)));
  }
  return {};
}

// Bits of a value that can flip.
size_t BitsOf(const SqlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return text->size() * 8;
  }
  return std::holds_alternative<std::monostate>(value) ? 0 : 64;
}

SqlValue Flipped(SqlValue value, size_t bit) {
  if (auto* text = std::get_if<std::string>(&value)) {
    (*text)[bit / 8] = static_cast<char>((*text)[bit / 8] ^ (1 << bit % 8));
  } else if (auto* number = std::get_if<int64_t>(&value)) {
    *number = static_cast<int64_t>(static_cast<uint64_t>(*number) ^ (uint64_t{1} << bit));
  } else if (auto* real = std::get_if<double>(&value)) {
    uint64_t bits = 0;
    std::memcpy(&bits, real, sizeof bits);
    bits ^= uint64_t{1} << bit;
    std::memcpy(real, &bits, sizeof bits);
  }
  return value;
}

TEST_CASE("the tables are those of the schema, and each has a sum", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto store = FilledStore(test->Open());
  for (const StoredTable* table : Tables().All()) {
    INFO(table->name());
    const auto found = store->database().Run("SELECT * FROM " + table->name() + " LIMIT 1", {});
    REQUIRE(found);
    CHECK(found->rows.size() == 1);  // the tests below look at each kind
    std::vector<std::string> columns = found->columns;
    CHECK(std::erase(columns, "sum") == 1);  // a later column stands behind it
    CHECK(columns == table->columns());
  }
  CHECK(CheckSums(store->database()));
}

TEST_CASE("a sum tells tables, columns and kinds of values apart", "[store][sums]") {
  const std::vector<SqlRow> rows = {
      {"ab", "c"},
      {"a", "bc"},
      {"abc"},
      {"abc", ""},
      {"abc", std::monostate{}},
      {int64_t{1}},
      {1.0},
      {"1"},
      {int64_t{0}},
      {0.0},
      {""},
      {std::monostate{}},
      {},
      {std::string(8, 'a')},
      {std::string(16, 'a')},
      {std::string("a\0", 2)},
      {"a"},
  };
  std::set<int64_t> sums;
  for (const SqlRow& row : rows) {
    sums.insert(RowSum("jobs").Add(row).value());
    sums.insert(RowSum("tasks").Add(row).value());
  }
  CHECK(sums.size() == rows.size() * 2);
  CHECK(RowSum("jobs").Add(SqlRow{-0.0}).value() == RowSum("jobs").Add(SqlRow{0.0}).value());
}

TEST_CASE("every bit of what is loaded is in a sum", "[store][sums]") {
  const auto test = MakeDatabase(Driver::kSqlite);
  const auto store = FilledStore(test->Open());
  size_t bits = 0;
  size_t missed = 0;
  for (const StoredTable* table : Tables().All()) {
    auto rows = SelectRows(store->database(), *table, "", {});
    REQUIRE(rows);
    for (SqlRow& row : rows->rows) {
      REQUIRE(CheckRow(*table, row));
      for (SqlValue& value : row) {
        const SqlValue sound = value;
        for (size_t bit = 0; bit < BitsOf(sound); ++bit) {
          value = Flipped(sound, bit);
          const bool same_number = value == SqlValue(-0.0) && sound == SqlValue(0.0);
          missed += CheckRow(*table, row) && !same_number ? 1 : 0;
          ++bits;
        }
        value = sound;
      }
    }
  }
  CHECK(bits > 100'000);
  CHECK(missed == 0);
}

void CheckIsNamed(const Status& read, const Database& database, const std::string& row) {
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(read.error().message,
             Contains(row + ": its checksum is wrong") && Contains(database.Name()) &&
                 Contains("restore it from a backup"));
}

// One flip in each column of each table, in the database itself.
TEST_CASE("a flipped bit is found at load and named", "[store][sums]") {
  const auto driver = GENERATE(Driver::kSqlite, Driver::kPostgres);
  const auto test = MakeDatabase(driver);
  const auto store = FilledStore(test->Open());
  Database& db = store->database();
  // Foreign keys keep some of it out; one of the two is the driver's word for leaving them off.
  CHECK((db.RunScript("PRAGMA foreign_keys = OFF") ||
         db.RunScript("SET session_replication_role = replica")));
  const std::string sound = LoadAll(db).value();
  for (const StoredTable* table : Tables().All()) {
    const SqlRows rows = Raw(db, *table);
    const SqlRow& row = rows.rows.front();
    for (size_t column = 0; column < row.size(); ++column) {
      if (BitsOf(row[column]) == 0) {
        continue;
      }
      SqlRow flipped = row;
      flipped[column] = Flipped(row[column], 0);
      SqlRow params = {flipped[column]};
      std::string where;
      for (size_t key = 0; key < table->keys(); ++key) {
        params.push_back(row[key]);
        where +=
            (key == 0 ? " WHERE " : " AND ") + rows.columns[key] + " = $" + std::to_string(key + 2);
      }
      INFO(table->name() << "." << rows.columns[column]);
      REQUIRE(db.Begin(kNoHurry));
      const auto changed = db.Run(
          "UPDATE " + table->name() + " SET " + rows.columns[column] + " = $1" + where, params);
      const std::string& name = rows.columns[column];
      const bool proved =
          !table->has_data() || column < table->keys() || name == "data" || name == "sum";
      if (changed && !proved) {
        CHECK(LoadAll(db) == sound);  // it is for people: nothing is loaded from it
      } else if (changed) {           // else such a row cannot be there: another one has its key
        // An archived task whose job is another one's is nobody's: only the whole check sees it.
        const bool archived = table->summed_as() != table->name();
        const bool lost = archived && column < table->keys();
        if (archived && !lost) {
          CheckIsNamed(LookIntoArchive(db), db, RowName(*table, flipped));
        } else if (!archived) {
          const auto loaded = LoadAll(db);
          CheckIsNamed(
              loaded ? Status() : std::unexpected(loaded.error()), db, RowName(*table, flipped));
        }
        CheckIsNamed(CheckSums(db), db, RowName(*table, flipped));
      }
      db.Rollback();
    }
  }
  CHECK(LoadAll(db) == sound);
}

TEST_CASE("a row without a sum is not loaded", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto store = FilledStore(test->Open());
  REQUIRE(store->database().RunScript("UPDATE nodes SET sum = 0 WHERE id = 0"));
  const auto loaded = store->Load();
  REQUIRE_FALSE(loaded);
  CHECK_THAT(loaded.error().message, Contains("nodes 0: its checksum is wrong"));
}

TEST_CASE("the id of a cluster that is not what was written starts nothing", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  {
    const auto store = FilledStore(test->Open());
    REQUIRE(store->database().RunScript("UPDATE cluster SET id = '0123456789abcdef'"));
    REQUIRE(store->Release(kNow));
  }
  const auto refused = Store::Open(test->Open(), "a", kNow);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(refused.error().message, Contains("cluster 0123456789abcdef"));
}

// Wherever in the file it flips: in rows, in indexes, in what SQLite keeps of its own.
TEST_CASE("a byte that changes anywhere in the file is found, or does no harm", "[store][sums]") {
  const testing::TempDir dir;
  {
    auto database = OpenSqlite(dir.File("t.db"));
    REQUIRE(database);
    (void)FilledStore(std::move(*database));
  }
  std::string bytes = *ReadFile(dir.File("t.db"), size_t{1} << 24);
  const std::string path = dir.File("flipped.db");
  const auto load = [&]() -> Result<std::string> {
    std::ofstream(path, std::ios::binary) << bytes;
    TIDE_ASSIGN(const auto database, OpenSqlite(path, SqliteAccess::kReader));
    return LoadAll(*database);
  };
  const auto sound = load();
  REQUIRE(sound);
  constexpr size_t kStride = 1009;  // prime to the size of a page
  size_t found = 0;
  size_t harmed = 0;
  for (size_t at = kStride; at < bytes.size(); at += kStride) {
    const char was = bytes[at];
    bytes[at] = static_cast<char>(was ^ (1 << at % 8));
    const auto loaded = load();
    found += loaded ? 0 : 1;
    harmed += loaded && *loaded != *sound ? 1 : 0;
    bytes[at] = was;
  }
  CHECK(found > 20);
  CHECK(harmed == 0);
}

TEST_CASE("a migration does not bless a row that was broken before it", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto database = test->Open();
  const auto before = BuiltInMigrations().first(7);
  REQUIRE(Migrate(*database, before, kNow));
  REQUIRE(
      database->RunScript("INSERT INTO tokens (number, user_name, kind, label, sha256, scopes, "
                          "created_at, expires_at, used_at) "
                          "VALUES (1, 'ann', 0, 'laptop', 'x', '', '', '', '')"));
  REQUIRE(database->Begin(kNoHurry));
  REQUIRE(FillSums(*database));
  REQUIRE(database->Commit());
  const auto set_user = [&](const std::string& name) {
    REQUIRE(database->RunScript("UPDATE tokens SET user_name = '" + name + "'"));
  };
  set_user("ada");
  const Status broken = Migrate(*database, BuiltInMigrations(), kNow);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(broken.error().message, Contains("tokens 1"));
  CHECK(*ReadSchemaVersion(*database, BuiltInMigrations()) == 7);
  set_user("ann");
  REQUIRE(Migrate(*database, BuiltInMigrations(), kNow));
  CHECK(CheckSums(*database));
}

TEST_CASE("rows are proved where a table is not there yet", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto database = test->Open();
  REQUIRE(Migrate(*database, BuiltInMigrations(), kNow));
  REQUIRE(database->RunScript("DROP TABLE members"));
  REQUIRE(database->Begin(kNoHurry));
  const Status proved = CheckFormerSums(*database);
  INFO((proved ? "" : proved.error().message));
  CHECK(proved);
  CHECK(database->RunScript("CREATE TABLE members (name TEXT)"));  // the transaction goes on
  CHECK(database->Commit());
}

TEST_CASE("the rows of a former schema get their sums with the migration", "[store][sums]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto database = test->Open();
  REQUIRE(Migrate(*database, BuiltInMigrations().first(6), kNow));
  REQUIRE(
      database->RunScript("INSERT INTO counters VALUES ('next_job_id', 42), ('other', 7);"
                          "INSERT INTO members VALUES ('vision', 'ann', 30, 1);"
                          "INSERT INTO archived_attempts (job, epoch, start_reason, end_detail, "
                          "nodes, data) VALUES (1, 2, '', '', 1, '{}');"));
  REQUIRE(Migrate(*database, BuiltInMigrations(), kNow));
  CHECK(CheckSums(*database));
  CHECK(LoadState(*database)->next_job_id == 42);
  REQUIRE(database->RunScript("UPDATE counters SET value = 43 WHERE name = 'other'"));
  const Status damaged = CheckSums(*database);
  REQUIRE_FALSE(damaged);
  CHECK_THAT(damaged.error().message, Contains("counters other"));
  REQUIRE(
      database->RunScript("UPDATE counters SET value = 7 WHERE name = 'other';"
                          "UPDATE archived_attempts SET data = '{ }'"));
  CHECK_THAT(CheckSums(*database).error().message, Contains("archived_attempts 1/2"));
}

}  // namespace
}  // namespace tide
