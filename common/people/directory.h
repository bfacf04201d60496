#pragma once
// All users, projects and tokens, and what is looked up in them. A value: copies are independent.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/people/permissions.h"
#include "common/people/records.h"
#include "common/people/token_text.h"

namespace tide {

class Directory {
 public:
  // A record replaces the one of its number; one that says `removed` takes it away.
  void Put(User user);
  void Put(Project project);
  void Put(Token token);

  // Null where there is none.
  [[nodiscard]] const User* FindUser(std::string_view name) const;
  [[nodiscard]] const Project* FindProject(std::string_view name) const;
  [[nodiscard]] const Token* FindToken(uint64_t number) const;
  // Returns the token by which this one was made, itself where it is none of a sign-in; null where
  // a proxy vouched for its user.
  [[nodiscard]] const Token* TokenBehind(uint64_t number) const;
  // By number.
  [[nodiscard]] const std::map<uint64_t, User>& users() const { return users_; }
  [[nodiscard]] const std::map<uint64_t, Project>& projects() const { return projects_; }
  [[nodiscard]] const std::map<uint64_t, Token>& tokens() const { return tokens_; }

  // Finds out who shows this token. Errors: kUnauthenticated: unknown, expired, a code, its user is
  // gone.
  [[nodiscard]] Result<Actor> Authenticate(const TokenText& text, Instant now) const;
  // The same of one whose secret was compared before.
  [[nodiscard]] Result<Actor> ActorOf(uint64_t token, std::string_view user, Instant now) const;

  [[nodiscard]] const Member* FindMember(std::string_view project, std::string_view user) const;
  // How `user` stands to a job of `owner` in `project`.
  [[nodiscard]] Relation RelationTo(std::string_view user,
                                    std::string_view owner,
                                    std::string_view project) const;

 private:
  std::map<uint64_t, User> users_;
  std::map<uint64_t, Project> projects_;
  std::map<uint64_t, Token> tokens_;
  std::map<std::string, uint64_t, std::less<>> user_by_name_;
  std::map<std::string, uint64_t, std::less<>> project_by_name_;
};

// Names of users and projects: 1 to 64 letters, digits and `._@-`; no dash or dot first. What
// people type, and what stands in paths and logs.
[[nodiscard]] Status CheckUserName(std::string_view name);
[[nodiscard]] Status CheckProjectName(std::string_view name);

}  // namespace tide
