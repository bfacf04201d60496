#pragma once
// Users, projects and tokens as messages and back.

#include "common/people/records.h"
#include "tide/v1/people.pb.h"

namespace tide::wire {

[[nodiscard]] tide::v1::Role ToProto(Role role);
[[nodiscard]] tide::v1::TokenKind ToProto(TokenKind kind);
[[nodiscard]] tide::v1::User ToProto(const User& user);
[[nodiscard]] tide::v1::Project ToProto(const Project& project);
[[nodiscard]] tide::v1::Token ToProto(const Token& token);

// What a peer of a later release calls by a number that is unknown here is the least of its kind.
[[nodiscard]] Role FromProto(tide::v1::Role role);
[[nodiscard]] TokenKind FromProto(tide::v1::TokenKind kind);
[[nodiscard]] User FromProto(const tide::v1::User& message);
[[nodiscard]] Project FromProto(const tide::v1::Project& message);
[[nodiscard]] Token FromProto(const tide::v1::Token& message);

}  // namespace tide::wire
