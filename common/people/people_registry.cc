#include "common/people/people_registry.h"

#include <algorithm>
#include <utility>

namespace tide {
namespace {

constexpr size_t kTokensOfUserMax = 100;
constexpr size_t kLabelMax = 64;
constexpr size_t kUsersMax = 100'000;
constexpr size_t kProjectsMax = 10'000;
constexpr size_t kMembersMax = 10'000;
constexpr uint32_t kLeastUid = 1000;  // below are root and accounts of the system
constexpr uint32_t kMostUid = UINT32_MAX - 1;
constexpr size_t kSha256Digits = 64;

std::unexpected<Error> NoUser(std::string_view name) {
  return Fail(ErrorCode::kNotFound,
              "there is no user " + std::string(name) + "; `tide user list` names those there");
}

std::unexpected<Error> NoProject(std::string_view name) {
  return Fail(
      ErrorCode::kNotFound,
      "there is no project " + std::string(name) + "; `tide project list` names those there");
}

bool IsLastAdmin(const Directory& there, const User& user) {
  return user.role == Role::kAdmin && std::ranges::none_of(there.users(), [&](const auto& entry) {
           return entry.second.role == Role::kAdmin && entry.first != user.number;
         });
}

std::unexpected<Error> LastAdmin(const User& user) {
  return Fail(ErrorCode::kConflict,
              user.name +
                  " is the last admin, nobody could add users any more: make another "
                  "admin first, with `tide user set NAME --role admin`");
}

Status CheckLabel(std::string_view label) {
  const auto printable = [](unsigned char c) { return c >= ' ' && c < 0x7F; };
  if (label.size() > kLabelMax || !std::ranges::all_of(label, printable)) {
    return Fail(ErrorCode::kInvalidArgument, "the label of a token has up to 64 letters of ASCII");
  }
  return {};
}

// Bounds a token by its maker: whoever gets hold of one has nothing that lasts longer.
Status BindToMaker(const Directory& there, Token& token) {
  if (token.kind != TokenKind::kToken) {
    const Token* maker = there.FindToken(token.maker);
    if (maker != nullptr) {
      token.expires_at = std::min(token.expires_at, maker->expires_at);
    }
    return {};
  }
  const Token* maker = there.TokenBehind(token.maker);
  token.maker = 0;
  if (maker != nullptr && maker->user == token.user && token.expires_at > maker->expires_at) {
    return Fail(ErrorCode::kPermissionDenied,
                "a token cannot make one that lasts longer: yours ends at " +
                    FormatRfc3339(maker->expires_at) +
                    "; give a shorter `--expires`, or ask an "
                    "admin for a token that lasts: `tide token create --user " +
                    token.user + "`");
  }
  return {};
}

}  // namespace

PeopleRegistry::PeopleRegistry(StoredPeople stored)
    : directory_(std::make_shared<Directory>(std::move(stored.directory))),
      next_user_(stored.next_user),
      next_project_(stored.next_project),
      next_token_(stored.next_token),
      gone_users_(std::move(stored.gone_users)) {}

std::shared_ptr<const Directory> PeopleRegistry::Snapshot() const {
  const MutexLock lock(mutex_);
  return directory_;
}

template <typename Record>
Record PeopleRegistry::Change(Record record) {
  {
    const MutexLock lock(mutex_);
    if (directory_.use_count() > 1) {
      directory_ = std::make_shared<Directory>(*directory_);
    }
    directory_->Put(record);
  }
  changes_.emplace_back(record);
  return record;
}

Status PeopleRegistry::CheckUser(const Directory& there, const User& user) {
  TIDE_TRY(CheckUserName(user.name));
  if (user.uid != 0 && (user.uid < kLeastUid || user.uid > kMostUid)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "uid " + std::to_string(user.uid) + " is of root or the system; jobs run as 1000 or above");
  }
  if (std::ranges::find(user.gids, 0U) != user.gids.end()) {
    return Fail(ErrorCode::kInvalidArgument, "gid 0 is root's; jobs are in other groups");
  }
  if (user.uid == 0 && !user.gids.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "groups are given together with a uid");
  }
  for (const auto& [number, other] : there.users()) {
    if (user.uid != 0 && other.uid == user.uid && number != user.number) {
      return Fail(ErrorCode::kConflict,
                  "uid " + std::to_string(user.uid) + " is " + other.name +
                      "'s: each would read the other's files");
    }
  }
  if (!user.project.empty() && there.FindProject(user.project) == nullptr) {
    return NoProject(user.project);
  }
  return {};
}

Result<User> PeopleRegistry::AddUser(User user, Instant now, bool again) {
  const Shared there = Snapshot();
  const auto gone = gone_users_.find(user.name);
  if (gone != gone_users_.end() && !again) {
    return Fail(ErrorCode::kConflict,
                "there was a user " + user.name +
                    ", whose jobs and secrets would be the new one's: choose another name, or give "
                    "--again where it is the same person");
  }
  user.number = gone == gone_users_.end() ? next_user_ : gone->second;
  user.created_at = now;
  TIDE_TRY(CheckUser(*there, user));
  if (there->FindUser(user.name) != nullptr) {
    return Fail(
        ErrorCode::kAlreadyExists,
        "user " + user.name + " is there; change it with `tide user set " + user.name + "`");
  }
  if (there->users().size() >= kUsersMax) {
    return Fail(ErrorCode::kConflict, "there may be 100,000 users");
  }
  next_user_ = std::max(next_user_, user.number + 1);
  gone_users_.erase(user.name);
  return Change(std::move(user));
}

Result<User> PeopleRegistry::SetUser(const UserChange& change) {
  const Shared there = Snapshot();
  const User* known = there->FindUser(change.name);
  if (known == nullptr) {
    return NoUser(change.name);
  }
  User user = *known;
  if (change.role) {
    if (*change.role != Role::kAdmin && IsLastAdmin(*there, user)) {
      return LastAdmin(user);
    }
    user.role = *change.role;
  }
  if (change.uid) {
    user.uid = *change.uid;
    user.gids = change.gids;
  }
  user.project = change.project.value_or(user.project);
  TIDE_TRY(CheckUser(*there, user));
  return Change(std::move(user));
}

void PeopleRegistry::DropTokens(std::string_view user, Instant expired_by) {
  const Shared there = Snapshot();
  for (const auto& [number, token] : there->tokens()) {
    if (token.user == user && token.expires_at <= expired_by) {
      Token gone = token;
      gone.removed = true;
      Change(std::move(gone));
    }
  }
}

Result<User> PeopleRegistry::RemoveUser(std::string_view name) {
  const Shared there = Snapshot();
  const User* known = there->FindUser(name);
  if (known == nullptr) {
    return NoUser(name);
  }
  if (IsLastAdmin(*there, *known)) {
    return LastAdmin(*known);
  }
  DropTokens(name, Instant::Never());
  for (const auto& [number, project] : there->projects()) {
    if (there->FindMember(project.name, name) != nullptr) {
      (void)RemoveMember(project.name, name);
    }
  }
  User gone = *known;
  gone.removed = true;
  gone_users_.emplace(gone.name, gone.number);
  return Change(std::move(gone));
}

Result<Project> PeopleRegistry::SetProject(const std::string& name,
                                           std::optional<bool> visible,
                                           Instant now) {
  TIDE_TRY(CheckProjectName(name));
  const Shared there = Snapshot();
  const Project* known = there->FindProject(name);
  if (known == nullptr && there->projects().size() >= kProjectsMax) {
    return Fail(ErrorCode::kConflict, "there may be 10,000 projects");
  }
  Project project = known == nullptr ? Project() : *known;
  if (known == nullptr) {
    project.number = next_project_++;
    project.name = name;
    project.created_at = now;
  }
  project.visible = visible.value_or(project.visible);
  return Change(std::move(project));
}

Result<Project> PeopleRegistry::RemoveProject(std::string_view name) {
  const Shared there = Snapshot();
  const Project* known = there->FindProject(name);
  if (known == nullptr) {
    return NoProject(name);
  }
  for (const auto& [number, user] : there->users()) {
    if (user.project == name) {
      User without = user;
      without.project.clear();
      Change(std::move(without));
    }
  }
  Project gone = *known;
  gone.removed = true;
  return Change(std::move(gone));
}

Result<Project> PeopleRegistry::SetMember(const MemberChange& change) {
  const Shared there = Snapshot();
  const Project* known = there->FindProject(change.project);
  if (known == nullptr) {
    return NoProject(change.project);
  }
  if (there->FindUser(change.user) == nullptr) {
    return NoUser(change.user);
  }
  Project project = *known;
  auto member = std::ranges::find(project.members, change.user, &Member::user);
  if (member == project.members.end()) {
    if (project.members.size() >= kMembersMax) {
      return Fail(ErrorCode::kConflict, "a project may have 10,000 members");
    }
    member = project.members.insert(member, Member{change.user});
  }
  member->max_class = change.max_class.value_or(member->max_class);
  member->exec = change.exec.value_or(member->exec);
  return Change(std::move(project));
}

Result<Project> PeopleRegistry::RemoveMember(std::string_view project, std::string_view user) {
  const Shared there = Snapshot();
  const Project* known = there->FindProject(project);
  if (known == nullptr) {
    return NoProject(project);
  }
  Project without = *known;
  if (std::erase_if(without.members, [user](const Member& each) { return each.user == user; }) ==
      0) {
    return Fail(ErrorCode::kNotFound,
                std::string(user) + " is no member of " + std::string(project));
  }
  return Change(std::move(without));
}

Result<Token> PeopleRegistry::Issue(Token token, Instant now) {
  DropTokens(token.user, now);
  const Shared there = Snapshot();
  if (there->FindUser(token.user) == nullptr) {
    return NoUser(token.user);
  }
  TIDE_TRY(CheckLabel(token.label));
  TIDE_TRY(BindToMaker(*there, token));
  if (token.sha256.size() != kSha256Digits || token.expires_at <= now) {
    return Fail(ErrorCode::kInvalidArgument, "a token has a secret and expires after now");
  }
  if ((token.scopes & kAllScopes) == 0 || (token.scopes & ~kAllScopes) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "a token has one or more of the scopes read, jobs, nodes, admin");
  }
  const auto of_user = std::ranges::count_if(
      there->tokens(), [&](const auto& entry) { return entry.second.user == token.user; });
  if (of_user >= static_cast<std::ptrdiff_t>(kTokensOfUserMax)) {
    return Fail(ErrorCode::kConflict,
                token.user + " has " + std::to_string(of_user) +
                    " tokens and sessions, as many as a user may: revoke one that is not needed, "
                    "see `tide token list`");
  }
  token.number = std::max(token.number, next_token_);
  next_token_ = token.number + 1;
  token.created_at = now;
  return Change(std::move(token));
}

Result<Token> PeopleRegistry::Revoke(uint64_t number) {
  const Shared there = Snapshot();
  const Token* known = there->FindToken(number);
  if (known == nullptr) {
    return Fail(
        ErrorCode::kNotFound,
        "there is no token " + std::to_string(number) + "; `tide token list` names those there");
  }
  for (const auto& [made, token] : there->tokens()) {
    if (token.maker == number) {
      TIDE_TRY(Revoke(made));
    }
  }
  Token gone = *known;
  gone.removed = true;
  return Change(std::move(gone));
}

Result<Token> PeopleRegistry::Spend(const CodeSpending& spending, Instant now) {
  const Shared there = Snapshot();
  const Token* code = there->FindToken(spending.code);
  if (code == nullptr || code->kind != TokenKind::kCode ||
      !EqualInConstantTime(code->sha256, spending.code_sha256) || code->expires_at <= now) {
    return Fail(ErrorCode::kUnauthenticated,
                "this sign-in code is wrong, used or too old; each works once for a short time: "
                "`tide ui` makes a new one");
  }
  Token session;
  session.user = code->user;
  session.kind = TokenKind::kSession;
  session.sha256 = spending.session_sha256;
  session.scopes = code->scopes;
  session.expires_at = spending.expires_at;
  session.maker = code->maker;
  TIDE_TRY(Revoke(spending.code));
  return Issue(std::move(session), now);
}

void PeopleRegistry::NoteUse(uint64_t token, Instant at) {
  const Shared there = Snapshot();
  const Token* known = there->FindToken(token);
  if (known != nullptr && known->used_at < at) {
    Token used = *known;
    used.used_at = at;
    Change(std::move(used));
  }
}

Result<bool> PeopleRegistry::BeginWith(const std::string& admin,
                                       std::string_view token_text,
                                       Instant now) {
  if (!Snapshot()->users().empty()) {
    return false;
  }
  const auto parsed = ParseTokenText(token_text);
  if (!parsed) {
    return Fail(ErrorCode::kInvalidArgument, "the first admin's token is none: tide_1_<64 digits>");
  }
  User user;
  user.name = admin;
  user.role = Role::kAdmin;
  TIDE_TRY(AddUser(std::move(user), now));
  Token token;
  token.number = parsed->number;
  token.user = admin;
  token.label = "first";
  token.sha256 = parsed->sha256;
  TIDE_TRY(Issue(std::move(token), now));
  return true;
}

std::vector<PeopleRecord> PeopleRegistry::TakeChanges() {
  return std::exchange(changes_, {});
}

std::set<std::string> PeopleRegistry::RemovedUsers() const {
  std::set<std::string> names;
  for (const auto& [name, number] : gone_users_) {
    names.insert(name);
  }
  return names;
}

std::vector<PeopleRecord> PeopleRegistry::All() const {
  const Shared there = Snapshot();
  std::vector<PeopleRecord> all;
  for (const auto& [number, user] : there->users()) {
    all.emplace_back(user);
  }
  for (const auto& [number, project] : there->projects()) {
    all.emplace_back(project);
  }
  for (const auto& [number, token] : there->tokens()) {
    all.emplace_back(token);
  }
  return all;
}

}  // namespace tide
