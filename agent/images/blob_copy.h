#pragma once
// Taking a blob out of a layout that belongs to a user.

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

struct JobUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
};

// While one exists this thread opens files with the rights of a job: the agent's would open folders
// to a job that its user may not enter.
class JobEyes {
 public:
  explicit JobEyes(JobUser user);
  ~JobEyes();
  JobEyes(const JobEyes&) = delete;
  JobEyes& operator=(const JobEyes&) = delete;

 private:
  const int gid_;
  const int uid_;
};

// A pipe or device in its place would hold up whoever opens it.
[[nodiscard]] Status NeedFile(const std::string& path);

struct BlobCopy {
  std::string source;
  std::string part;  // written anew
  std::string digest;
  uint64_t size = 0;
};

// go_on: asked about every 16 MiB; false = leave off.
// Errors: kNotFound, kPermissionDenied, kInvalidArgument for what is no file, kCorrupt for one of
// another size or content, kSystem.
[[nodiscard]] Status CopyBlob(const BlobCopy& copy,
                              JobUser user,
                              const std::function<bool()>& go_on);

}  // namespace tide::agent
