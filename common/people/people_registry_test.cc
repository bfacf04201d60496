#include "common/people/people_registry.h"

#include <catch2/catch.hpp>

#include "common/digest/sha256.h"

namespace tide {
namespace {

constexpr Instant kNow = Instant::FromUnixNanos(1'800'000'000'000'000'000);

User Named(const std::string& name, Role role = Role::kUser) {
  User user;
  user.name = name;
  user.role = role;
  return user;
}

Token TokenFor(const std::string& user, Instant expires = Instant::Never()) {
  Token token;
  token.user = user;
  token.sha256 = Sha256Hex(user + "'s secret");
  token.expires_at = expires;
  return token;
}

// A registry with an admin `ada` and a user `ann`.
PeopleRegistry Filled() {
  StoredPeople stored;
  User ada = Named("ada", Role::kAdmin);
  ada.number = stored.next_user++;
  stored.directory.Put(ada);
  User ann = Named("ann");
  ann.number = stored.next_user++;
  stored.directory.Put(ann);
  return PeopleRegistry(std::move(stored));
}

TEST_CASE("a number is never given twice", "[people]") {
  PeopleRegistry people = Filled();
  const uint64_t first = people.AddUser(Named("eve"), kNow)->number;
  REQUIRE(people.RemoveUser("eve"));
  CHECK(people.AddUser(Named("eva"), kNow)->number > first);
  // What eve had is not another's who takes her name, unless it is she.
  CHECK(people.AddUser(Named("eve"), kNow).error().code == ErrorCode::kConflict);
  CHECK(people.AddUser(Named("eve"), kNow, true)->number == first);
  const uint64_t token = people.Issue(TokenFor("ann"), kNow)->number;
  REQUIRE(people.Revoke(token));
  CHECK(people.Issue(TokenFor("ann"), kNow)->number > token);
}

TEST_CASE("a snapshot stays as it was", "[people]") {
  PeopleRegistry people = Filled();
  const auto before = people.Snapshot();
  REQUIRE(people.AddUser(Named("eve"), kNow));
  CHECK(before->FindUser("eve") == nullptr);
  CHECK(people.Snapshot()->FindUser("eve") != nullptr);
}

TEST_CASE("a removed user loses tokens and memberships, and the last admin stays", "[people]") {
  PeopleRegistry people = Filled();
  REQUIRE(people.SetProject("vision", true, kNow));
  REQUIRE(people.SetMember({"vision", "ann", {}, {}}));
  const uint64_t token = people.Issue(TokenFor("ann"), kNow)->number;
  REQUIRE(people.RemoveUser("ann"));
  CHECK(people.Snapshot()->FindToken(token) == nullptr);
  CHECK(people.Snapshot()->FindMember("vision", "ann") == nullptr);
  CHECK(people.RemoveUser("ada").error().code == ErrorCode::kConflict);
  CHECK(people.SetUser({"ada", Role::kUser, {}, {}, {}}).error().code == ErrorCode::kConflict);
  REQUIRE(people.AddUser(Named("eva", Role::kAdmin), kNow));
  CHECK(people.RemoveUser("ada"));
}

TEST_CASE("who shows a token is looked up by its secret, and until it expires", "[people]") {
  PeopleRegistry people = Filled();
  const std::string secret(64, 'a');
  Token token = TokenFor("ann", kNow + Duration::Seconds(10));
  token.sha256 = Sha256Hex(secret);
  const uint64_t number = people.Issue(token, kNow)->number;
  const auto text = ParseTokenText(MakeTokenText(number, secret));
  REQUIRE(text);
  const auto there = people.Snapshot();
  CHECK(there->Authenticate(*text, kNow)->user == "ann");
  const auto wrong = ParseTokenText(MakeTokenText(number, std::string(64, 'b')));
  CHECK(there->Authenticate(*wrong, kNow).error().code == ErrorCode::kUnauthenticated);
  const auto late = there->Authenticate(*text, kNow + Duration::Seconds(10));
  CHECK_THAT(late.error().message, Catch::Contains("expired at"));
  CHECK(there->ActorOf(number, "ada", kNow).error().code == ErrorCode::kUnauthenticated);
}

TEST_CASE("a code gives one session, and opens nothing by itself", "[people]") {
  PeopleRegistry people = Filled();
  const std::string secret(64, 'c');
  Token code = TokenFor("ann", kNow + Duration::Seconds(60));
  code.kind = TokenKind::kCode;
  code.sha256 = Sha256Hex(secret);
  const uint64_t number = people.Issue(code, kNow)->number;
  CHECK_FALSE(
      people.Snapshot()->Authenticate(*ParseTokenText(MakeTokenText(number, secret)), kNow));
  const CodeSpending spending{
      number, Sha256Hex(secret), Sha256Hex("s"), kNow + Duration::Seconds(3600)};
  CodeSpending wrong = spending;
  wrong.code_sha256 = Sha256Hex("x");
  CHECK(people.Spend(wrong, kNow).error().code == ErrorCode::kUnauthenticated);
  CHECK(people.Spend(spending, kNow + Duration::Seconds(60)).error().code ==
        ErrorCode::kUnauthenticated);
  const auto session = people.Spend(spending, kNow);
  REQUIRE(session);
  CHECK(session->kind == TokenKind::kSession);
  CHECK(session->user == "ann");
  CHECK(people.Spend(spending, kNow).error().code == ErrorCode::kUnauthenticated);
}

TEST_CASE("what was made of a token by signing in ends with it", "[people]") {
  PeopleRegistry people = Filled();
  const auto issue = [&](TokenKind kind, uint64_t maker) {
    Token token = TokenFor("ann", kNow + Duration::Seconds(3600));
    token.kind = kind;
    token.maker = maker;
    token.sha256 = Sha256Hex("s");
    return people.Issue(token, kNow).value();
  };
  const Token laptop = issue(TokenKind::kToken, 0);
  const Token other = issue(TokenKind::kToken, laptop.number);
  const Token session = issue(TokenKind::kSession, laptop.number);
  const Token of_session = issue(TokenKind::kSession, session.number);
  const Token code = issue(TokenKind::kCode, session.number);
  const Token unspent = issue(TokenKind::kCode, laptop.number);
  const auto signed_in =
      people.Spend({code.number, code.sha256, Sha256Hex("t"), kNow + Duration::Seconds(60)}, kNow);
  REQUIRE(signed_in);
  const Token others_session = issue(TokenKind::kSession, other.number);

  REQUIRE(people.Revoke(laptop.number));
  const auto left = people.Snapshot();
  for (const Token& gone : {laptop, session, of_session, *signed_in, unspent}) {
    CHECK(left->FindToken(gone.number) == nullptr);
  }
  CHECK(left->FindToken(other.number) != nullptr);
  CHECK(left->FindToken(others_session.number) != nullptr);
}

TEST_CASE("what is made of a token lasts no longer than it", "[people]") {
  PeopleRegistry people = Filled();
  const Instant end = kNow + Duration::Seconds(100);
  const uint64_t maker = people.Issue(TokenFor("ann", end), kNow)->number;
  Token made = TokenFor("ann");
  made.maker = maker;
  const auto refused = people.Issue(made, kNow);
  CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  CHECK_THAT(refused.error().message, Catch::Contains("yours ends at " + FormatRfc3339(end)));
  made.expires_at = end;
  CHECK(people.Issue(made, kNow));
  // An admin gives others what they need.
  Token of_another = TokenFor("ada");
  of_another.maker = maker;
  CHECK(people.Issue(of_another, kNow));

  // A session is no way around it; one that a proxy vouched for has nothing behind it.
  Token session = TokenFor("ann", kNow + Duration::Seconds(3600));
  session.kind = TokenKind::kSession;
  session.maker = maker;
  const auto of_token = people.Issue(session, kNow);
  CHECK(of_token->expires_at == end);
  CHECK(people.Snapshot()->TokenBehind(of_token->number)->number == maker);
  made = TokenFor("ann");
  made.maker = of_token->number;
  CHECK(people.Issue(made, kNow).error().code == ErrorCode::kPermissionDenied);
  session.maker = 0;
  made.maker = people.Issue(session, kNow)->number;
  CHECK(people.Snapshot()->TokenBehind(made.maker) == nullptr);
  CHECK(people.Issue(made, kNow));
}

TEST_CASE("a user has a hundred tokens at most; expired ones make room", "[people]") {
  PeopleRegistry people = Filled();
  for (int i = 0; i < 100; ++i) {
    REQUIRE(people.Issue(TokenFor("ann", kNow + Duration::Seconds(i == 0 ? 1 : 1000)), kNow));
  }
  CHECK(people.Issue(TokenFor("ann"), kNow).error().code == ErrorCode::kConflict);
  CHECK(people.Issue(TokenFor("ann"), kNow + Duration::Seconds(2)));
}

TEST_CASE("the first admin is made once", "[people]") {
  PeopleRegistry people;
  CHECK(people.BeginWith("root", "nonsense", kNow).error().code == ErrorCode::kInvalidArgument);
  const std::string text = MakeTokenText(7, std::string(64, 'd'));
  CHECK(PeopleRegistry().BeginWith("root", text, kNow).value());
  PeopleRegistry fresh;
  REQUIRE(fresh.BeginWith("root", text, kNow).value());
  CHECK(fresh.Snapshot()->Authenticate(*ParseTokenText(text), kNow)->role == Role::kAdmin);
  CHECK_FALSE(fresh.BeginWith("other", text, kNow).value());
  CHECK(fresh.Issue(TokenFor("root"), kNow)->number == 8);
}

}  // namespace
}  // namespace tide
