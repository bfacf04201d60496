#pragma once
// Who entered which task, and how that ended: one JSON object a line, on disk before it counts.
// The file belongs to its owner alone (0600) and is only appended to.
//
// Arguments of commands are not in it, their number is: they may hold secrets, and the file lives
// longer and is read by others than the job. What is typed into a shell is not in it either.
//
// Any thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/result.h"

namespace tide::api {

struct AuditRecord {
  // "refused": not allowed. "allowed": about to start, then "failed" if it did not or "ended". All
  // lines of one command have its number.
  std::string event;
  std::string command;     // its number: random, no secret
  std::string request_id;  // of the call that asked
  std::string user;
  std::string role;
  std::string job;  // as asked for, where there is no such job
  std::string job_user;
  std::string project;
  uint64_t attempt = 0;
  uint32_t rank = 0;
  std::string node;
  std::string program;  // "" = the container's shell
  uint64_t arguments = 0;
  bool terminal = false;
  std::string reason;  // of a refusal or failure, or of an end that was not the command's own
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<int64_t> seconds;
};

class AuditLog {
 public:
  // Errors: kSystem, kPermissionDenied when others may read or write it.
  [[nodiscard]] static Result<std::unique_ptr<AuditLog>> Open(const std::string& path);

  // Returns once the line is on disk. Errors: kSystem; what is recorded must not happen then.
  [[nodiscard]] Status Record(const AuditRecord& record);

 private:
  AuditLog(std::string path, Fd file);

  const std::string path_;
  Mutex mutex_;
  Fd file_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::api
