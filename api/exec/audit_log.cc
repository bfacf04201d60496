#include "api/exec/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/base/time.h"

namespace tide::api {
namespace {

std::string LineOf(const AuditRecord& record) {
  nlohmann::ordered_json line = {{"at", FormatRfc3339(SystemNow())},
                                 {"event", "exec_" + record.event},
                                 {"command", record.command},
                                 {"user", record.user},
                                 {"role", record.role},
                                 {"job", record.job},
                                 {"job_user", record.job_user},
                                 {"project", record.project},
                                 {"attempt", record.attempt},
                                 {"rank", record.rank},
                                 {"node", record.node},
                                 {"program", record.program},
                                 {"arguments", record.arguments},
                                 {"terminal", record.terminal},
                                 {"reason", record.reason},
                                 {"request_id", record.request_id}};
  if (record.exit_code) {
    line["exit_code"] = *record.exit_code;
  }
  if (record.signal) {
    line["signal"] = *record.signal;
  }
  if (record.seconds) {
    line["seconds"] = *record.seconds;
  }
  return line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

AuditLog::AuditLog(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

Result<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    return FailErrno("cannot open the audit log " + path, errno);
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || (info.st_mode & 0077U) != 0 ||
      info.st_uid != ::geteuid()) {
    return Fail(ErrorCode::kPermissionDenied,
                "the audit log " + path + " must be a file of its owner alone: chmod 600 " + path);
  }
  // After a crash in the middle of a line the next one must not be glued to it.
  char last = '\n';
  const Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (info.st_size > 0 && ::pread(reader.get(), &last, 1, info.st_size - 1) == 1 && last != '\n') {
    TIDE_TRY(WriteAll(file.get(), "\n"));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(path, std::move(file)));
}

Status AuditLog::Record(const AuditRecord& record) {
  const std::string line = LineOf(record);
  const MutexLock lock(mutex_);
  if (const Status written = WriteAll(file_.get(), line); !written) {
    return Fail(ErrorCode::kSystem,
                "cannot write the audit log " + path_ + ": " + written.error().message);
  }
  if (::fdatasync(file_.get()) != 0) {
    return FailErrno("cannot write the audit log " + path_, errno);
  }
  return {};
}

}  // namespace tide::api
