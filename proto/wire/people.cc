#include "proto/wire/people.h"

namespace tide::wire {

tide::v1::Role ToProto(Role role) {
  switch (role) {
    case Role::kViewer:
      return tide::v1::ROLE_VIEWER;
    case Role::kUser:
      return tide::v1::ROLE_USER;
    case Role::kOperator:
      return tide::v1::ROLE_OPERATOR;
    case Role::kAdmin:
      return tide::v1::ROLE_ADMIN;
  }
  return tide::v1::ROLE_VIEWER;
}

tide::v1::TokenKind ToProto(TokenKind kind) {
  switch (kind) {
    case TokenKind::kToken:
      return tide::v1::TOKEN_KIND_TOKEN;
    case TokenKind::kSession:
      return tide::v1::TOKEN_KIND_SESSION;
    case TokenKind::kCode:
      return tide::v1::TOKEN_KIND_CODE;
  }
  return tide::v1::TOKEN_KIND_CODE;
}

tide::v1::User ToProto(const User& user) {
  tide::v1::User message;
  message.set_number(user.number);
  message.set_name(user.name);
  message.set_role(ToProto(user.role));
  message.set_uid(user.uid);
  message.mutable_gids()->Assign(user.gids.begin(), user.gids.end());
  message.set_project(user.project);
  message.set_created_at(user.created_at.unix_nanos());
  message.set_removed(user.removed);
  return message;
}

tide::v1::Project ToProto(const Project& project) {
  tide::v1::Project message;
  message.set_number(project.number);
  message.set_name(project.name);
  message.set_visible(project.visible);
  for (const Member& member : project.members) {
    tide::v1::Member& added = *message.add_members();
    added.set_user(member.user);
    added.set_max_class(member.max_class);
    added.set_exec(member.exec);
  }
  message.set_created_at(project.created_at.unix_nanos());
  message.set_removed(project.removed);
  return message;
}

tide::v1::Token ToProto(const Token& token) {
  tide::v1::Token message;
  message.set_number(token.number);
  message.set_user(token.user);
  message.set_kind(ToProto(token.kind));
  message.set_label(token.label);
  message.set_sha256(token.sha256);
  message.set_scopes(token.scopes);
  message.set_created_at(token.created_at.unix_nanos());
  message.set_expires_at(token.expires_at.unix_nanos());
  message.set_used_at(token.used_at.unix_nanos());
  message.set_removed(token.removed);
  return message;
}

Role FromProto(tide::v1::Role role) {
  for (const Role known : {Role::kUser, Role::kOperator, Role::kAdmin}) {
    if (ToProto(known) == role) {
      return known;
    }
  }
  return Role::kViewer;
}

TokenKind FromProto(tide::v1::TokenKind kind) {
  for (const TokenKind known : {TokenKind::kToken, TokenKind::kSession}) {
    if (ToProto(known) == kind) {
      return known;
    }
  }
  return TokenKind::kCode;
}

User FromProto(const tide::v1::User& message) {
  User user;
  user.number = message.number();
  user.name = message.name();
  user.role = FromProto(message.role());
  user.uid = message.uid();
  user.gids.assign(message.gids().begin(), message.gids().end());
  user.project = message.project();
  user.created_at = Instant::FromUnixNanos(message.created_at());
  user.removed = message.removed();
  return user;
}

Project FromProto(const tide::v1::Project& message) {
  Project project;
  project.number = message.number();
  project.name = message.name();
  project.visible = message.visible();
  for (const tide::v1::Member& member : message.members()) {
    project.members.push_back({member.user(), member.max_class(), member.exec()});
  }
  project.created_at = Instant::FromUnixNanos(message.created_at());
  project.removed = message.removed();
  return project;
}

Token FromProto(const tide::v1::Token& message) {
  Token token;
  token.number = message.number();
  token.user = message.user();
  token.kind = FromProto(message.kind());
  token.label = message.label();
  token.sha256 = message.sha256();
  token.scopes = message.scopes();
  token.created_at = Instant::FromUnixNanos(message.created_at());
  token.expires_at = Instant::FromUnixNanos(message.expires_at());
  token.used_at = Instant::FromUnixNanos(message.used_at());
  token.removed = message.removed();
  return token;
}

}  // namespace tide::wire
