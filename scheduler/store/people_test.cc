#include "scheduler/store/people.h"

#include <catch2/catch.hpp>

#include "scheduler/store/store.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/testing/databases.h"

namespace tide {
namespace {

using testing::Driver;
using testing::kNow;
using testing::MakeDatabase;
using testing::MustOpenStore;

User Ann() {
  User ann;
  ann.number = 3;
  ann.name = "ann";
  ann.role = Role::kOperator;
  ann.uid = 20017;
  ann.gids = {20017, 44};
  ann.project = "vision";
  ann.created_at = kNow;
  return ann;
}

Project Vision() {
  Project vision;
  vision.number = 2;
  vision.name = "vision";
  vision.visible = true;
  vision.members = {{"ann", 30, false}, {"bob", -1, true}};
  vision.created_at = kNow;
  return vision;
}

Token Laptop() {
  Token token;
  token.number = 9;
  token.user = "ann";
  token.kind = TokenKind::kSession;
  token.label = "laptop";
  token.sha256 = std::string(64, 'a');
  token.scopes = 3;
  token.created_at = kNow;
  token.used_at = kNow + Duration::Seconds(1);
  token.maker = 7;
  return token;
}

TEST_CASE("users, projects and tokens are loaded as they were written", "[store][people]") {
  const auto files = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  {
    const auto store = MustOpenStore(files->Open(), "a", kNow);
    store->Stage(PeopleRecord(Ann()));
    store->Stage(PeopleRecord(Vision()));
    store->Stage(PeopleRecord(Laptop()));
    REQUIRE(store->Commit({}, {}, kNow));
    Project smaller = Vision();
    smaller.members.pop_back();
    store->Stage(PeopleRecord(smaller));
    Token older = Laptop();  // a lower number does not bring the counter back
    older.number = 4;
    older.expires_at = kNow + Duration::Minutes(1);
    store->Stage(PeopleRecord(older));
    REQUIRE(store->Commit({}, {}, kNow));
    REQUIRE(store->Release(kNow));
  }
  const auto next = MustOpenStore(files->Open(), "a", kNow + Duration::Seconds(2));
  auto people = LoadPeople(next->database());
  REQUIRE(people);
  CHECK(people->directory.users().at(3) == Ann());
  CHECK(people->directory.projects().at(2).members == std::vector<Member>{{"ann", 30, false}});
  CHECK(people->directory.tokens().at(9) == Laptop());
  CHECK(people->directory.tokens().at(4).expires_at == kNow + Duration::Minutes(1));
  CHECK(people->next_user == 4);
  CHECK(people->next_project == 3);
  CHECK(people->next_token == 10);

  Token gone = Laptop();
  gone.removed = true;
  next->Stage(PeopleRecord(gone));
  User no_more = Ann();
  no_more.removed = true;
  next->Stage(PeopleRecord(no_more));
  REQUIRE(next->Commit({}, {}, kNow + Duration::Seconds(3)));
  people = LoadPeople(next->database());
  REQUIRE(people);
  CHECK(people->directory.users().empty());
  CHECK(people->gone_users.at("ann") == 3);
  CHECK(people->next_user == 4);
  CHECK(people->next_token == 10);
}

TEST_CASE("a row that says nothing known is named", "[store][people]") {
  const auto files = MakeDatabase(Driver::kSqlite);
  const auto store = MustOpenStore(files->Open(), "a", kNow);
  store->Stage(PeopleRecord(Ann()));
  REQUIRE(store->Commit({}, {}, kNow));
  REQUIRE(store->database().RunScript("UPDATE users SET role = 'king'"));
  REQUIRE(FillSums(store->database()));  // written so, not damaged later
  const auto people = LoadPeople(store->database());
  REQUIRE_FALSE(people);
  CHECK(people.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(people.error().message, Catch::Contains("users.role is \"king\""));
}

TEST_CASE("the audit grows, in the order of what was done", "[store][people]") {
  const auto files = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto store = MustOpenStore(files->Open(), "a", kNow);
  for (int i = 0; i < 3; ++i) {
    AuditEntry entry;
    entry.at = kNow + Duration::Seconds(i);
    entry.user = i == 1 ? "bob" : "ann";
    entry.token = 9;
    entry.operation = "jobs.control";
    entry.object = "j-" + std::to_string(i);
    entry.outcome = "done";
    entry.detail = std::string("a\0b", 3);
    store->Stage(entry);
    REQUIRE(store->Commit({}, {}, kNow));
  }
  const auto all = ReadAudit(store->database(), {});
  REQUIRE(all);
  REQUIRE(all->size() == 3);
  CHECK((*all)[0].seq == 1);
  CHECK((*all)[2].object == "j-2");
  CHECK((*all)[2].detail == "a?b");
  const auto objects = [&store](const AuditQuery& query) {
    std::string found;
    for (const AuditEntry& entry : ReadAudit(store->database(), query).value()) {
      found += entry.object + " ";
    }
    return found;
  };
  CHECK(objects({.from = 2, .most = 1}) == "j-1 ");
  CHECK(objects({.since = kNow + Duration::Seconds(1)}) == "j-1 j-2 ");
  CHECK(objects({.until = kNow + Duration::Seconds(1)}) == "j-0 ");
  CHECK(objects({.user = "ann"}) == "j-0 j-2 ");
  CHECK(objects({.user = "ann' OR ''='"}).empty());
  CHECK(objects({.operation = "jobs.control"}) == "j-0 j-1 j-2 ");
  CHECK(objects({.operation = "jobs.submit"}).empty());
}

}  // namespace
}  // namespace tide
