#include "scheduler/server/people/first_admin.h"

#include <sys/stat.h>

#include <future>

#include "common/base/file.h"
#include "common/log/log.h"
#include "common/people/token_text.h"

namespace tide {
namespace {

constexpr size_t kFileMax = 4096;

Result<std::string> FirstToken(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    std::string text = MakeTokenText(1, RandomHex(kTokenSecretBytes));
    TIDE_TRY(WriteFileDurably(path, text + "\n"));
    return text;
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                path + " can be read by others; run `chmod 600 " + path + "`");
  }
  TIDE_ASSIGN(std::string text, ReadFile(path, kFileMax));
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

}  // namespace

Status BeginWithAdmin(Loop& loop, const std::string& admin, const std::string& token_file) {
  if (!loop.people().Snapshot()->users().empty()) {
    return {};
  }
  if (token_file.empty()) {
    log::Warning("There are no users, so nobody can sign in: start once with --admin-token-file",
                 {});
    return {};
  }
  TIDE_ASSIGN(const std::string text, FirstToken(token_file));
  auto answer = std::make_shared<std::promise<Status>>();
  std::future<Status> committed = answer->get_future();
  Request request;
  request.make = [&loop, &admin, &text](BatchContext& batch,
                                        Reply&) -> Result<std::vector<EventBody>> {
    TIDE_TRY(loop.people().BeginWith(admin, text, batch.now()));
    return std::vector<EventBody>{};
  };
  request.done = [answer](const Reply& reply) { answer->set_value(reply.status); };
  if (!loop.Enqueue(std::move(request))) {
    return Fail(ErrorCode::kInternal, "the loop takes no requests");
  }
  TIDE_TRY(committed.get());
  log::Info("First admin", {{"User", admin}, {"TokenFile", token_file}});
  return {};
}

Result<std::vector<PeopleRecord>> FirstAdmin(const std::string& admin,
                                             const std::string& token_file,
                                             Instant now) {
  TIDE_ASSIGN(const std::string text, FirstToken(token_file));
  PeopleRegistry people;
  TIDE_TRY(people.BeginWith(admin, text, now));
  return people.TakeChanges();
}

}  // namespace tide
