#pragma once
// The birth of a cluster: its store, with an id of its own, and the first admin.

#include <string>

#include "common/base/result.h"

namespace tide {

struct NewStore {
  std::string address;
  std::string holder;            // of the lease meanwhile
  std::string admin;             // the name of the first user
  std::string admin_token_file;  // "" = nobody is made
};

// Makes the store, and says which cluster's it is. Nobody leads it then.
//   Errors: kAlreadyExists: a store is there; those of OpenDatabaseToMake, Store::Open
//   and of the admin.
[[nodiscard]] Status MakeStore(const NewStore& wanted);

}  // namespace tide
