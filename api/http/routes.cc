#include "api/http/routes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/http/body.h"
#include "api/view/json.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

constexpr auto kReadAfterWrite = std::chrono::seconds(10);  // an array of 10,000 takes seconds
constexpr size_t kMaxLimit = 1000;

std::expected<nlohmann::json, Problem> ParseBody(const Call& call) {
  auto body = ParseJson(call.body);
  if (!body.is_object()) {
    return Refuse(ErrorCode::kInvalidArgument, kNoObject);
  }
  return body;
}

// Has all that a user asks for answered from a view with the user's own changes. A submission asks
// for nothing that is there.
void FenceReads(Routes& routes, App& app) {
  for (Route& route : routes) {
    const bool submits = route.method == "POST" && route.pattern == "/v1/jobs";
    if (!submits && route.access) {
      route.handler = [answer = std::move(route.handler), &app](const Call& call) {
        if (!app.fences->Await(app.store, call.who.user, kReadAfterWrite, MonotonicNanos())) {
          return Outcome(Refuse(ErrorCode::kUnavailable,
                                "nothing was read or done: the API does not show yet what you "
                                "submitted before, it has much to take in; ask again"));
        }
        return answer(call);
      };
    }
  }
}

}  // namespace

Routes AllRoutes(App& app) {
  Routes all;
  for (Routes part : {JobRoutes(app),
                      LogRoutes(app),
                      ExecRoutes(app),
                      NodeRoutes(app),
                      RankRoutes(app),
                      ImageRoutes(app),
                      SecretRoutes(app),
                      StreamRoutes(app),
                      SessionRoutes(app),
                      PeopleRoutes(app),
                      TokenRoutes(app),
                      UsageRoutes(app),
                      SystemRoutes(app)}) {
    std::ranges::move(part, std::back_inserter(all));
  }
  FenceReads(all, app);
  return all;
}

std::expected<ViewPtr, Problem> NeedView(const App& app) {
  ViewPtr view = app.store.Get();
  if (view == nullptr) {
    return Refuse(ErrorCode::kUnavailable,
                  "the scheduler has not answered yet; running jobs continue; try again soon");
  }
  return view;
}

std::expected<std::shared_ptr<const JobRow>, Problem> LookUpJob(const App& app,
                                                                const Call& call,
                                                                const std::string& ref) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto job = FindJob(**view, ref, call.who.user);
  if (!job) {
    return std::unexpected(ToProblem(job.error()));
  }
  if (*job == nullptr) {
    return std::unexpected(
        NotFound(app, "there is no job " + ref + "; `tide ps --all` lists what there is"));
  }
  return *job;
}

std::expected<std::shared_ptr<const JobRow>, Problem> NeedJob(const App& app, const Call& call) {
  const std::string ref = call.Path("ref");
  auto job = LookUpJob(app, call, ref);
  if (!job) {
    return job;
  }
  if (const auto allowed = CheckJob(app, call, (*job)->message); !allowed) {
    return std::unexpected(allowed.error());
  }
  // A name that was one's own until its job went to the archive is anybody's.
  const v1::Job& found = (*job)->message;
  const bool acts =
      call.operation == Operation::kControlJob || call.operation == Operation::kRunCommand;
  if (acts && found.user() != call.who.user && !ParseJobName(ref)) {
    return Refuse(ErrorCode::kConflict,
                  ref + " is a job of " + found.user() +
                      ", not yours; say the id: " + FormatJobName(found.id()));
  }
  return job;
}

std::expected<void, Problem> CheckJob(const App& app, const Call& call, const v1::Job& job) {
  const Relation relation = call.RelationTo(job);
  const Status allowed = CheckAllowed(call.who, call.operation, relation, job.user());
  // A command is recorded by its route, which knows more of whether it may begin.
  const bool recorded_here = call.operation != Operation::kRunCommand &&
                             relation != Relation::kOwn &&
                             PermissionOf(call.operation).looks_inside;
  if (!allowed || recorded_here) {
    AuditNote note{FormatJobName(job.id()), job.user(), {}};
    if (!allowed) {
      note.refusal = ToProblem(allowed.error());
    }
    if (const Status recorded = RecordAudit(app, call, note); !recorded) {
      return std::unexpected(ToProblem(recorded.error()));
    }
  }
  if (!allowed) {
    return std::unexpected(ToProblem(allowed.error()));
  }
  return {};
}

Detail DetailInLists(const Call& call, const v1::Job& job) {
  if (job.user() == call.who.user) {
    return Detail::kAll;
  }
  return call.who.role >= Role::kOperator ? Detail::kNoSpec : Detail::kOutline;
}

Status RecordAudit(const App& app, const Call& call, const AuditNote& note) {
  v1::RecordAuditRequest request;
  *request.mutable_caller() = call.Caller();
  request.set_operation(std::string(PermissionOf(call.operation).name));
  request.set_object(note.object);
  request.set_owner(note.owner);
  request.set_outcome(note.refusal ? note.refusal->code : "done");
  request.set_detail(note.refusal ? note.refusal->detail : "");
  return app.scheduler.RecordAudit(request);
}

Problem NotFound(const App& app, const std::string& detail) {
  if (app.store.broken()) {
    return ToProblem(Error{ErrorCode::kUnavailable,
                           detail + "; but the scheduler, which may know it, does not answer; "
                                    "running jobs continue; try again soon"});
  }
  return ToProblem(Error{ErrorCode::kNotFound, detail});
}

std::expected<std::shared_ptr<const JobRow>, Problem> NeedJobOrArchived(const App& app,
                                                                        const Call& call) {
  auto job = NeedJob(app, call);
  const auto id = ParseJobName(call.Path("ref"));
  if (job || !id || app.store.Get() == nullptr) {
    return job;
  }
  v1::GetArchivedJobRequest asked;
  asked.set_job_id(*id);
  *asked.mutable_caller() = call.Caller();
  const Result<v1::Job> archived = app.scheduler.Archived(asked);
  if (archived) {
    if (const auto allowed = CheckJob(app, call, *archived); !allowed) {
      return std::unexpected(allowed.error());
    }
    return std::make_shared<const JobRow>(*archived, /*archived=*/true);
  }
  if (archived.error().code == ErrorCode::kUnavailable) {
    return Refuse(ErrorCode::kUnavailable,
                  call.Path("ref") +
                      " is not among the jobs shown; whether it is archived is not "
                      "known: " +
                      archived.error().message);
  }
  return job;
}

void AwaitRev(const App& app, uint64_t rev) {
  static_cast<void>(app.store.WaitForRev(rev, kReadAfterWrite));
}

std::expected<int64_t, Problem> ParseNumber(const Call& call,
                                            const std::string& key,
                                            int64_t fallback) {
  const std::string text = call.Query(key);
  if (text.empty()) {
    return fallback;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "`" + key + "=" + text + "` is not a whole number from 0 on");
  }
  return value;
}

std::expected<int64_t, Problem> ParseTime(const Call& call, const std::string& key, Instant now) {
  const std::string text = call.Query(key);
  if (text.empty()) {
    return 0;
  }
  if (const auto at = ParseRfc3339(text)) {
    return at->unix_nanos();
  }
  constexpr std::string_view kUnits = "smhd";
  constexpr std::array<int64_t, 4> kSeconds = {1, 60, 3600, 86400};
  constexpr int64_t kMost = int64_t{100} * 365 * 86400;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const size_t unit = end == text.data() + text.size() - 1 ? kUnits.find(*end) : std::string::npos;
  if (error != std::errc() || unit == std::string_view::npos || value < 0 ||
      value > kMost / kSeconds[unit]) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "`" + key + "=" + text +
                      "` is neither a time (2026-01-31T12:00:00Z) nor how long ago (10m, 2h, 1d)");
  }
  return std::max<int64_t>(1, (now - Duration::Seconds(value * kSeconds[unit])).unix_nanos());
}

std::expected<Page, Problem> ParsePage(const Call& call, size_t default_limit) {
  const auto limit = ParseNumber(call, "limit", static_cast<int64_t>(default_limit));
  if (!limit) {
    return std::unexpected(limit.error());
  }
  if (*limit < 1 || *limit > static_cast<int64_t>(kMaxLimit)) {
    return Refuse(ErrorCode::kInvalidArgument, "`limit` must be from 1 to 1000");
  }
  return Page{static_cast<size_t>(*limit), call.Query("cursor")};
}

bool ListWriter::Count(bool before_page) {
  if (before_page || full()) {
    Skip(1, before_page);
    return false;
  }
  ++total_;
  return true;
}

void ListWriter::Skip(size_t items, bool before_page) {
  total_ += items;
  more_ = more_ || (!before_page && items > 0);
}

void ListWriter::Put(const std::string& json, const std::string& cursor) {
  if (count_ > 0) {
    items_ += ',';
  }
  items_ += json;
  last_ = cursor;
  ++count_;
}

Outcome ListWriter::Finish(const App& app, const View& view, const Call& call) const {
  // Two who share a browser, one after the other, do not see each other's page.
  const std::string etag =
      "\"" + app.store.boot() + "-" + std::to_string(view.seq) + "-" + call.who.user + "\"";
  Reply reply;
  reply.headers.emplace_back("ETag", etag);
  if (call.Header("if-none-match") == etag) {
    reply.status = 304;
    return reply;
  }
  reply.body = "{\"items\":[" + items_ +
               "],\"next_cursor\":" + (more_ ? Quoted(last_) : std::string("null")) +
               ",\"rev\":" + std::to_string(view.rev) +
               ",\"total_estimate\":" + std::to_string(total_) +
               ",\"user\":" + Quoted(call.who.user) + "}";
  return reply;
}

std::expected<std::string, Problem> BodyText(const Call& call, const std::string& key) {
  const auto body = ParseBody(call);
  if (!body) {
    return std::unexpected(body.error());
  }
  const auto it = body->find(key);
  if (it == body->end() || it->is_null()) {
    return std::string();
  }
  if (!it->is_string()) {
    return Refuse(ErrorCode::kInvalidArgument, "`" + key + "` must be a text");
  }
  return it->get<std::string>();
}

bool HasBodyKey(const Call& call, const std::string& key) {
  const auto body = ParseBody(call);
  return body && body->contains(key) && !body->at(key).is_null();
}

std::expected<int64_t, Problem> BodyNumber(const Call& call, const std::string& key) {
  const auto body = ParseBody(call);
  if (!body) {
    return std::unexpected(body.error());
  }
  const auto it = body->find(key);
  if (it == body->end() || it->is_null()) {
    return 0;
  }
  if (!it->is_number_unsigned() || it->get<uint64_t>() > UINT32_MAX) {
    return Refuse(ErrorCode::kInvalidArgument, "`" + key + "` must be a whole number from 0 on");
  }
  return it->get<int64_t>();
}

}  // namespace tide::api
