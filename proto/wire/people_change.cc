#include "proto/wire/people_change.h"

#include <algorithm>

#include "proto/wire/people.h"

namespace tide {
namespace {

using Change = tide::v1::ChangePeopleRequest::ChangeCase;

PeopleOperation OfUser(const std::string& name, std::string detail) {
  return {Operation::kManageUsers, "user " + name, name, std::move(detail)};
}

PeopleOperation OfProject(const std::string& name, std::string detail) {
  return {Operation::kManageProjects, "project " + name, {}, std::move(detail)};
}

std::string AsRole(std::string_view verb, tide::v1::Role role) {
  return std::string(verb) + " as " + std::string(RoleName(wire::FromProto(role)));
}

// A token's owner manages it, an admin those of others.
PeopleOperation OfToken(const std::string& object, const std::string& owner, bool own) {
  return {own ? Operation::kManageOwnTokens : Operation::kManageUsers, object, owner};
}

User ToUser(const tide::v1::AddUser& add) {
  User user;
  user.name = add.name();
  user.role = wire::FromProto(add.role());
  user.uid = add.uid();
  user.gids.assign(add.gids().begin(), add.gids().end());
  user.project = add.project();
  return user;
}

UserChange ToChange(const tide::v1::SetUser& set) {
  UserChange change;
  change.name = set.name();
  if (set.has_role()) {
    change.role = wire::FromProto(set.role());
  }
  if (set.has_uid()) {
    change.uid = set.uid();
    change.gids.assign(set.gids().begin(), set.gids().end());
  }
  if (set.has_project()) {
    change.project = set.project();
  }
  return change;
}

MemberChange ToChange(const tide::v1::SetMember& set) {
  MemberChange change;
  change.project = set.project();
  change.user = set.user();
  if (set.has_max_class()) {
    change.max_class = set.max_class();
  }
  if (set.has_exec()) {
    change.exec = set.exec();
  }
  return change;
}

Token ToToken(const tide::v1::IssueToken& issue) {
  Token token;
  token.user = issue.user();
  token.kind = wire::FromProto(issue.kind());
  token.label = issue.label();
  token.sha256 = issue.sha256();
  token.scopes = issue.scopes();
  token.expires_at = Instant::FromUnixNanos(issue.expires_at());
  return token;
}

// Keeps what was changed for the answer.
Status Keep(const Result<User>& changed, tide::v1::ChangePeopleResponse& response) {
  TIDE_TRY(changed);
  *response.mutable_user() = wire::ToProto(*changed);
  return {};
}
Status Keep(const Result<Project>& changed, tide::v1::ChangePeopleResponse& response) {
  TIDE_TRY(changed);
  *response.mutable_project() = wire::ToProto(*changed);
  return {};
}
Status Keep(const Result<Token>& changed, tide::v1::ChangePeopleResponse& response) {
  TIDE_TRY(changed);
  *response.mutable_token() = wire::ToProto(*changed);
  return {};
}

Status CheckScopes(const Token& token, const Actor& actor) {
  if (token.user == actor.user && (token.scopes & ~actor.scopes) != 0) {
    return Fail(
        ErrorCode::kPermissionDenied,
        "a token cannot make one that may more: yours has the scopes " + ScopesText(actor.scopes));
  }
  return {};
}

}  // namespace

Result<PeopleOperation> DescribeChange(const tide::v1::ChangePeopleRequest& request,
                                       const Directory& people) {
  const std::string& caller = request.caller().user();
  switch (request.change_case()) {
    case Change::kAddUser:
      return OfUser(request.add_user().name(), AsRole("add", request.add_user().role()));
    case Change::kSetUser:
      return OfUser(
          request.set_user().name(),
          request.set_user().has_role() ? AsRole("set", request.set_user().role()) : "set");
    case Change::kRemoveUser:
      return OfUser(request.remove_user(), "remove");
    case Change::kSetProject:
      return OfProject(request.set_project().name(), "set");
    case Change::kRemoveProject:
      return OfProject(request.remove_project(), "remove");
    case Change::kSetMember:
      return OfProject(request.set_member().project(), "member " + request.set_member().user());
    case Change::kRemoveMember:
      return OfProject(request.remove_member().project(),
                       "no member " + request.remove_member().user());
    case Change::kIssueToken: {
      const std::string& owner = request.issue_token().user();
      if (owner == caller && request.issue_token().kind() == tide::v1::TOKEN_KIND_SESSION) {
        // The API itself asks: a proxy that it trusts has said who this is.
        const bool vouched = request.issue_token().by_proxy();
        return PeopleOperation{Operation::kSeeSelf,
                               "a session of " + owner,
                               owner,
                               vouched ? "signed in by a proxy" : "",
                               vouched};
      }
      return OfToken("a token of " + owner, owner, owner == caller);
    }
    case Change::kRevokeToken: {
      const Token* token = people.FindToken(request.revoke_token());
      if (request.revoke_token() == request.caller().token()) {
        return PeopleOperation{
            Operation::kSeeSelf, "token " + std::to_string(request.revoke_token()), caller};
      }
      const std::string owner = token == nullptr ? "" : token->user;
      return OfToken("token " + std::to_string(request.revoke_token()), owner, owner == caller);
    }
    case Change::kSpendCode:
      return PeopleOperation{Operation::kManageOwnTokens,
                             "code " + std::to_string(request.spend_code().code()),
                             {},
                             {},
                             true};
    case Change::kNoteUses:
      return PeopleOperation{Operation::kManageOwnTokens, "uses of tokens", {}, {}, true};
    case Change::CHANGE_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "nothing is to be changed that this scheduler knows");
}

Status ApplyChange(const tide::v1::ChangePeopleRequest& request,
                   const Actor& actor,
                   Instant now,
                   PeopleRegistry& people,
                   tide::v1::ChangePeopleResponse& response) {
  switch (request.change_case()) {
    case Change::kAddUser:
      return Keep(people.AddUser(ToUser(request.add_user()), now, request.add_user().again()),
                  response);
    case Change::kSetUser:
      return Keep(people.SetUser(ToChange(request.set_user())), response);
    case Change::kRemoveUser:
      return Keep(people.RemoveUser(request.remove_user()), response);
    case Change::kSetProject: {
      const tide::v1::SetProject& set = request.set_project();
      const auto visible = set.has_visible() ? std::optional(set.visible()) : std::nullopt;
      return Keep(people.SetProject(set.name(), visible, now), response);
    }
    case Change::kRemoveProject:
      return Keep(people.RemoveProject(request.remove_project()), response);
    case Change::kSetMember:
      return Keep(people.SetMember(ToChange(request.set_member())), response);
    case Change::kRemoveMember:
      return Keep(
          people.RemoveMember(request.remove_member().project(), request.remove_member().user()),
          response);
    case Change::kIssueToken: {
      Token token = ToToken(request.issue_token());
      TIDE_TRY(CheckScopes(token, actor));
      token.maker = request.caller().token();
      return Keep(people.Issue(std::move(token), now), response);
    }
    case Change::kRevokeToken:
      return Keep(people.Revoke(request.revoke_token()), response);
    case Change::kSpendCode: {
      const tide::v1::SpendCode& spend = request.spend_code();
      return Keep(people.Spend({spend.code(),
                                spend.code_sha256(),
                                spend.session_sha256(),
                                Instant::FromUnixNanos(spend.expires_at())},
                               now),
                  response);
    }
    case Change::kNoteUses:
      for (const tide::v1::TokenUse& use : request.note_uses().uses()) {
        people.NoteUse(use.token(), Instant::FromUnixNanos(use.used_at()));
      }
      return {};
    case Change::CHANGE_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "nothing is to be changed");
}

}  // namespace tide
