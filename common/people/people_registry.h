#pragma once
// Users, projects and tokens as the leading scheduler has them. Changes count at once, and are to
// be written with the next commit: answer after that. Thread rule: Snapshot from any thread, the
// rest is the loop's.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "common/people/directory.h"

namespace tide {

using PeopleRecord = std::variant<User, Project, Token>;

// All of them, with the numbers that the next ones get.
struct StoredPeople {
  Directory directory;
  uint64_t next_user = 1;
  uint64_t next_project = 1;
  uint64_t next_token = 1;
  std::map<std::string, uint64_t> gone_users = {};  // numbers by name, of those who were removed
};

// What is not said stays as it is.
struct UserChange {
  std::string name;
  std::optional<Role> role;
  std::optional<uint32_t> uid;
  std::vector<uint32_t> gids;  // with uid
  std::optional<std::string> project;
};
struct MemberChange {
  std::string project;
  std::string user;
  std::optional<int32_t> max_class;
  std::optional<bool> exec;
};
// The one code that gives a session.
struct CodeSpending {
  uint64_t code = 0;
  std::string code_sha256;
  std::string session_sha256;
  Instant expires_at;
};

class PeopleRegistry {
 public:
  PeopleRegistry() : PeopleRegistry(StoredPeople()) {}
  explicit PeopleRegistry(StoredPeople stored);

  [[nodiscard]] std::shared_ptr<const Directory> Snapshot() const;

  // All return the record as it is now, or was. Errors: kInvalidArgument for names and numbers that
  // none may have, kNotFound, kAlreadyExists, kConflict with what else there is.
  //   again: who was removed comes back, with the same number: jobs, secrets and files of that name
  //   are hers. Else the name of one who was removed is refused (kConflict).
  [[nodiscard]] Result<User> AddUser(User user, Instant now, bool again = false);
  [[nodiscard]] Result<User> SetUser(const UserChange& change);
  // With its tokens and memberships. kConflict: it is the last admin.
  [[nodiscard]] Result<User> RemoveUser(std::string_view name);
  [[nodiscard]] Result<Project> SetProject(const std::string& name,
                                           std::optional<bool> visible,
                                           Instant now);
  [[nodiscard]] Result<Project> RemoveProject(std::string_view name);
  [[nodiscard]] Result<Project> SetMember(const MemberChange& change);
  [[nodiscard]] Result<Project> RemoveMember(std::string_view project, std::string_view user);

  // Gives it its number, and drops what of its user's has expired.
  //   token.maker: by which it is asked for. A session or code ends with it, at the latest.
  //   Errors: kPermissionDenied: a token of one's own that lasts longer than the one it is made by.
  [[nodiscard]] Result<Token> Issue(Token token, Instant now);
  // Ends it with all sessions and codes that were made of it.
  [[nodiscard]] Result<Token> Revoke(uint64_t number);
  // Errors: kUnauthenticated: unknown, used, expired.
  [[nodiscard]] Result<Token> Spend(const CodeSpending& spending, Instant now);
  void NoteUse(uint64_t token, Instant at);

  // A user with the role admin and a token of this text, where there is nobody yet. Returns whether
  // that was so. Errors: those of AddUser; kInvalidArgument for a text that is no token.
  [[nodiscard]] Result<bool> BeginWith(const std::string& admin,
                                       std::string_view token_text,
                                       Instant now);

  [[nodiscard]] std::vector<PeopleRecord> TakeChanges();
  // Names of those who were removed, and have not come back.
  [[nodiscard]] std::set<std::string> RemovedUsers() const;
  // Everything, for the first view.
  [[nodiscard]] std::vector<PeopleRecord> All() const;

 private:
  using Shared = std::shared_ptr<const Directory>;

  template <typename Record>
  Record Change(Record record);
  [[nodiscard]] static Status CheckUser(const Directory& there, const User& user);
  void DropTokens(std::string_view user, Instant expired_by);

  mutable Mutex mutex_;
  // Changed in place where no snapshot is held, else copied first.
  std::shared_ptr<Directory> directory_ TIDE_GUARDED_BY(mutex_);
  uint64_t next_user_;
  uint64_t next_project_;
  uint64_t next_token_;
  std::map<std::string, uint64_t> gone_users_;
  std::vector<PeopleRecord> changes_;
};

}  // namespace tide
