#pragma once
// A user of each role, as tests have them: vera (viewer), ann, bob and alice (user), olga
// (operator), adam (admin), each with one token.

#include <string>

#include "common/people/people_registry.h"

namespace tide::testing {

[[nodiscard]] StoredPeople SomePeople();
// The text of the user's token.
[[nodiscard]] std::string TokenOf(const std::string& user);
// The text of a code of alice that was not used in time.
[[nodiscard]] std::string OldCode();

}  // namespace tide::testing
