#include "common/people/directory.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tide {
namespace {

constexpr size_t kNameMax = 64;

// Puts or takes away a record with its name.
template <typename Record>
void PutNamed(std::map<uint64_t, Record>& records,
              std::map<std::string, uint64_t, std::less<>>& by_name,
              Record record) {
  const auto known = records.find(record.number);
  if (known != records.end()) {
    by_name.erase(known->second.name);
  }
  if (record.removed) {
    if (known != records.end()) {
      records.erase(known);
    }
    return;
  }
  by_name.insert_or_assign(record.name, record.number);
  records.insert_or_assign(record.number, std::move(record));
}

template <typename Record>
const Record* FindNamed(const std::map<uint64_t, Record>& records,
                        const std::map<std::string, uint64_t, std::less<>>& by_name,
                        std::string_view name) {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &records.at(found->second);
}

Status CheckName(std::string_view what, std::string_view name, std::string_view others) {
  const auto plain = [others](unsigned char c) {
    return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (name.empty() || name.size() > kNameMax || name.front() == '-' || name.front() == '.' ||
      !std::ranges::all_of(name, plain)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the name of a " + std::string(what) + " has 1 to 64 letters, digits and `" +
                    std::string(others) + "`, no dash or dot first");
  }
  return {};
}

constexpr std::string_view kHowToSignIn =
    "; get one with `tide token create` where you are signed in, or from an admin, and give it to "
    "`tide login`";

}  // namespace

void Directory::Put(User user) {
  PutNamed(users_, user_by_name_, std::move(user));
}

void Directory::Put(Project project) {
  PutNamed(projects_, project_by_name_, std::move(project));
}

void Directory::Put(Token token) {
  if (token.removed) {
    tokens_.erase(token.number);
  } else {
    tokens_.insert_or_assign(token.number, std::move(token));
  }
}

const User* Directory::FindUser(std::string_view name) const {
  return FindNamed(users_, user_by_name_, name);
}

const Project* Directory::FindProject(std::string_view name) const {
  return FindNamed(projects_, project_by_name_, name);
}

const Token* Directory::FindToken(uint64_t number) const {
  const auto found = tokens_.find(number);
  return found == tokens_.end() ? nullptr : &found->second;
}

const Token* Directory::TokenBehind(uint64_t number) const {
  const Token* token = FindToken(number);
  while (token != nullptr && token->kind != TokenKind::kToken) {
    token = FindToken(token->maker);
  }
  return token;
}

Result<Actor> Directory::Authenticate(const TokenText& text, Instant now) const {
  const Token* token = FindToken(text.number);
  if (token == nullptr || !EqualInConstantTime(token->sha256, text.sha256)) {
    return Fail(ErrorCode::kUnauthenticated,
                "this token is unknown or was revoked" + std::string(kHowToSignIn));
  }
  return ActorOf(text.number, token->user, now);
}

Result<Actor> Directory::ActorOf(uint64_t token, std::string_view user, Instant now) const {
  const Token* shown = FindToken(token);
  if (shown == nullptr || shown->user != user || shown->kind == TokenKind::kCode) {
    return Fail(ErrorCode::kUnauthenticated,
                "this token is unknown or was revoked" + std::string(kHowToSignIn));
  }
  if (shown->expires_at <= now) {
    return Fail(
        ErrorCode::kUnauthenticated,
        (shown->kind == TokenKind::kSession ? "this session ended at " : "this token expired at ") +
            FormatRfc3339(shown->expires_at) + std::string(kHowToSignIn));
  }
  const User* known = FindUser(user);
  if (known == nullptr) {
    return Fail(ErrorCode::kUnauthenticated, "user " + std::string(user) + " was removed");
  }
  return Actor{known->name, known->role, shown->scopes, token};
}

const Member* Directory::FindMember(std::string_view project, std::string_view user) const {
  const Project* found = FindProject(project);
  if (found == nullptr) {
    return nullptr;
  }
  const auto member = std::ranges::find(found->members, user, &Member::user);
  return member == found->members.end() ? nullptr : &*member;
}

Relation Directory::RelationTo(std::string_view user,
                               std::string_view owner,
                               std::string_view project) const {
  if (user == owner) {
    return Relation::kOwn;
  }
  const Project* shared = FindProject(project);
  return shared != nullptr && shared->visible && FindMember(project, user) != nullptr
             ? Relation::kMember
             : Relation::kOther;
}

Status CheckUserName(std::string_view name) {
  return CheckName("user", name, "._@-");
}

Status CheckProjectName(std::string_view name) {
  return CheckName("project", name, "._@-");
}

}  // namespace tide
