#pragma once
// The profile by which every `tide` of a user finds the cluster of `tide dev`, and whose it is.
//
// Invariant: of several `tide dev` that run at a time, the first keeps the profile until its end.
// Its lock on the file says that it runs; a file without one is left over and is taken.

#include <string>

#include "common/base/file.h"

namespace tide::cli {

class ProfileClaim {
 public:
  ProfileClaim() = default;

  // Writes the profile and keeps it, or finds that another `tide dev` does.
  //   path: its folder exists.   server: without a slash at the end.
  //   Errors: kConflict for a file that is not ours alone, kSystem.
  [[nodiscard]] static Result<ProfileClaim> Take(const std::string& path,
                                                 const std::string& server,
                                                 const std::string& token);

  [[nodiscard]] bool ours() const { return file_.valid(); }
  // The server of the `tide dev` that keeps the profile; "" where it is ours.
  [[nodiscard]] const std::string& other_server() const { return other_server_; }
  // Removes the profile if it is ours still: a person may have put another in its place.
  void Release();

 private:
  std::string path_;
  std::string other_server_;
  Fd file_;  // locked
};

}  // namespace tide::cli
