#pragma once
// The first user of a store that has none.

#include <string>
#include <vector>

#include "common/people/people_registry.h"
#include "scheduler/server/loop.h"

namespace tide {

// Makes the admin where there is no user, and commits it; its token is what the file holds, or a
// new one that is written into it first. Without a file it only warns: nobody can sign in then.
//   Errors: kPermissionDenied where others may read the file; those of files and of AddUser.
[[nodiscard]] Status BeginWithAdmin(Loop& loop,
                                    const std::string& admin,
                                    const std::string& token_file);

// Returns the records of that user and token, for a store that is yet to be made.
//   Errors: as above.
[[nodiscard]] Result<std::vector<PeopleRecord>> FirstAdmin(const std::string& admin,
                                                           const std::string& token_file,
                                                           Instant now);

}  // namespace tide
