// Jobs: submit, plan, list, show, explain, suspend, resume, cancel, move.

#include <algorithm>
#include <array>
#include <optional>

#include "api/http/elements.h"
#include "api/http/job_list.h"
#include "api/http/routes.h"
#include "api/view/json.h"
#include "common/base/time.h"
#include "common/spec/spec_text.h"
#include "proto/wire/convert.h"

namespace tide::api {
namespace {

constexpr size_t kMaxSpecBytes = 1U << 20U;
constexpr size_t kMaxKeyLength = 256;
constexpr int64_t kMostWaitSeconds = 60;

bool IsSpecType(const std::string& header) {
  static constexpr std::array<std::string_view, 5> kTypes = {
      "", "application/yaml", "application/json", "application/x-yaml", "text/yaml"};
  const std::string type = header.substr(0, header.find(';'));
  return std::ranges::find(kTypes, type) != kTypes.end();
}

// The job as the view has it, or only its id when the view is late.
std::string JobOrId(const App& app, const Call& call, uint64_t id) {
  const ViewPtr view = app.store.Get();
  if (view != nullptr) {
    const auto it = view->jobs.find(id);
    if (it != view->jobs.end()) {
      return it->second->json(DetailInLists(call, it->second->message));
    }
  }
  return "{\"id\":\"" + FormatJobName(id) + "\"}";
}

// The job spec in the body: what submitting and planning refuse alike.
std::expected<JobSpec, Problem> ReadSpec(const Call& call) {
  if (!IsSpecType(call.Header("content-type"))) {
    return RefuseStatus(415,
                        "unsupported_media_type",
                        "send the job spec as application/yaml or application/json, not " +
                            call.Header("content-type"));
  }
  if (call.body.size() > kMaxSpecBytes) {
    return RefuseStatus(413, "too_large", "a job spec may have up to 1 MiB");
  }
  ParsedSpec parsed = ParseJobSpec(call.body);
  if (!parsed.findings.empty()) {
    return RefuseSpec(std::move(parsed.findings));
  }
  return std::move(parsed.spec);
}

Outcome Submit(App& app, const Call& call) {
  const auto spec = ReadSpec(call);
  if (!spec) {
    return std::unexpected(spec.error());
  }
  const std::string key = call.Header("idempotency-key");
  if (key.size() > kMaxKeyLength) {
    return Refuse(ErrorCode::kInvalidArgument, "Idempotency-Key may have up to 256 characters");
  }
  if (const auto may = app.allowances->TakeSubmit(call.who.user, MonotonicNanos()); !may) {
    return std::unexpected(may.error());
  }
  v1::SubmitJobRequest request;
  *request.mutable_spec() = wire::ToProto(*spec);
  *request.mutable_caller() = call.Caller();
  request.set_idempotency_key(key);
  const auto response = app.scheduler.Submit(request);
  if (!response) {
    return std::unexpected(ToProblem(response.error()));
  }
  Reply reply;
  reply.status = response->existed() ? 200 : 201;
  if (response->has_job()) {
    app.fences->Note(app.store, call.who.user, response->rev());
    reply.body = JobJson(response->job());
  } else {
    AwaitRev(app, response->rev());
    reply.body = JobOrId(app, call, response->job_id());
  }
  reply.headers.emplace_back("Location", "/v1/jobs/" + FormatJobName(response->job_id()));
  return reply;
}

Outcome Plan(const App& app, const Call& call) {
  const auto spec = ReadSpec(call);
  if (!spec) {
    return std::unexpected(spec.error());
  }
  v1::PlanJobRequest request;
  *request.mutable_spec() = wire::ToProto(*spec);
  *request.mutable_caller() = call.Caller();
  const auto plan = app.scheduler.Plan(request);
  if (!plan) {
    return std::unexpected(ToProblem(plan.error()));
  }
  Reply reply;
  reply.body = PlanJson(*plan);
  return reply;
}

Outcome ShowElements(const App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto elements = FindElements(app, **view, call);
  if (!elements) {
    return std::unexpected(elements.error());
  }
  Reply reply;
  reply.body = ElementsJson(**view, *elements);
  return reply;
}

// Waits until the job has finished, `seconds` at most; not at all where as many wait as may.
void AwaitEnd(const App& app, const Call& call, uint64_t id, int64_t seconds) {
  const auto slot = app.streams.Take(call.who.user);
  const int64_t until = MonotonicNanos() + seconds * 1'000'000'000;
  while (slot && !app.store.stopped()) {
    const ViewPtr view = app.store.Get();
    const auto job = view->jobs.find(id);
    const int64_t left_ms = (until - MonotonicNanos()) / 1'000'000;
    if (job == view->jobs.end() || job->second->message.state() == v1::JOB_STATE_FINISHED ||
        left_ms <= 0) {
      return;
    }
    static_cast<void>(app.store.WaitBeyond(view->seq, std::chrono::milliseconds(left_ms)));
  }
}

// How much of one job its page shows: all of it to who may see the inside, which is recorded of
// another's.
std::expected<Detail, Problem> DetailShown(const App& app, const Call& call, const v1::Job& job) {
  const Relation relation = call.RelationTo(job);
  if (!IsAllowed(call.who.role, call.who.scopes, Operation::kSeeInside, relation)) {
    return DetailInLists(call, job);
  }
  if (relation != Relation::kOwn) {
    Call look = call;
    look.operation = Operation::kSeeInside;
    if (const auto recorded = CheckJob(app, look, job); !recorded) {
      return std::unexpected(recorded.error());
    }
  }
  return Detail::kAll;
}

Outcome Show(const App& app, const Call& call) {
  if (IsArrayRef(call.Path("ref"))) {
    return ShowElements(app, call);
  }
  const auto wait = ParseNumber(call, "wait", 0);
  if (!wait || *wait > kMostWaitSeconds) {
    return !wait ? std::unexpected(wait.error())
                 : Refuse(ErrorCode::kInvalidArgument, "`wait` may be 60 seconds at most");
  }
  auto job = NeedJobOrArchived(app, call);
  if (job && *wait > 0) {
    // By its id from now on: another may have the name by then.
    const uint64_t id = (*job)->message.id();
    AwaitEnd(app, call, id, *wait);
    Call again = call;
    again.path["ref"] = FormatJobName(id);
    job = NeedJobOrArchived(app, again);
  }
  if (!job) {
    return std::unexpected(job.error());
  }
  const auto detail = DetailShown(app, call, (*job)->message);
  if (!detail) {
    return std::unexpected(detail.error());
  }
  Reply reply;
  reply.body = (*job)->json(*detail);
  return reply;
}

// Of elements of an array, the first that waits: they are alike.
std::expected<std::shared_ptr<const JobRow>, Problem> NeedWaiting(const App& app,
                                                                  const Call& call) {
  const auto view = NeedView(app);
  if (!view || !IsArrayRef(call.Path("ref"))) {
    return NeedJob(app, call);
  }
  const auto elements = FindElements(app, **view, call);
  if (!elements) {
    return std::unexpected(elements.error());
  }
  return FirstWaiting(**view, *elements);
}

Outcome Why(const App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto job = NeedWaiting(app, call);
  if (!view || !job) {
    return std::unexpected(!view ? view.error() : job.error());
  }
  Reply reply;
  reply.body = WhyJson((*job)->message, (*view)->rev);
  return reply;
}

// The job before which one is to stand, an id or a name; 0 where the body names none.
std::expected<uint64_t, Problem> ReadBefore(const App& app, const Call& call) {
  const auto before = BodyText(call, "before");
  if (!before) {
    return std::unexpected(before.error());
  }
  if (before->empty()) {
    return 0;
  }
  const auto job = LookUpJob(app, call, *before);
  if (!job) {
    return std::unexpected(job.error());
  }
  return (*job)->message.id();
}

// What `ref` names, where it names elements of an array; moving is for single jobs.
std::expected<std::optional<Elements>, Problem> ReadElements(const App& app,
                                                             const Call& call,
                                                             v1::JobVerb verb) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  if (!IsArrayRef(call.Path("ref"))) {
    return std::nullopt;
  }
  if (verb == v1::JOB_VERB_MOVE) {
    return Refuse(ErrorCode::kInvalidArgument, "one job is moved at a time, not an array");
  }
  return FindElements(app, **view, call);
}

Outcome Control(App& app, const Call& call, v1::JobVerb verb) {
  const auto elements_or = ReadElements(app, call, verb);
  if (!elements_or) {
    return std::unexpected(elements_or.error());
  }
  const std::optional<Elements>& elements = *elements_or;
  std::expected<std::shared_ptr<const JobRow>, Problem> job =
      elements ? elements->array : NeedJob(app, call);
  const auto reason = BodyText(call, "reason");
  const auto notice_s = BodyNumber(call, "notice_s");
  if (!job || !reason || !notice_s) {
    return std::unexpected(!job ? job.error() : !reason ? reason.error() : notice_s.error());
  }
  const v1::Job& target = (*job)->message;
  v1::ControlJobRequest request;
  request.set_job_id(target.id());
  request.set_verb(verb);
  *request.mutable_caller() = call.Caller();
  request.set_reason(*reason);
  request.set_notice_ms(static_cast<uint64_t>(*notice_s) * 1000);
  if (verb == v1::JOB_VERB_MOVE) {
    const auto before = ReadBefore(app, call);
    if (!before) {
      return std::unexpected(before.error());
    }
    request.set_before(*before);
  }
  if (verb == v1::JOB_VERB_RESUME && HasBodyKey(call, "step")) {
    const auto step = BodyNumber(call, "step");
    if (!step) {
      return std::unexpected(step.error());
    }
    request.set_resume_step(*step);
  }
  if (elements) {
    request.set_job_id(elements->first_job());
    request.set_count(elements->count());
  }
  const auto rev = app.scheduler.Control(request);
  if (!rev) {
    return std::unexpected(ToProblem(rev.error()));
  }
  AwaitRev(app, *rev);
  if (elements) {
    return ShowElements(app, call);
  }
  Reply reply;
  reply.body = JobOrId(app, call, target.id());
  return reply;
}

}  // namespace

Routes JobRoutes(App& app) {
  const auto control = [&app](v1::JobVerb verb) {
    return [&app, verb](const Call& call) { return Control(app, call, verb); };
  };
  return {
      {"POST",
       "/v1/jobs",
       Operation::kSubmitJob,
       [&app](const Call& call) { return Submit(app, call); }},
      {"POST",
       "/v1/plan",
       Operation::kPlanJob,
       [&app](const Call& call) { return Plan(app, call); }},
      {"GET",
       "/v1/jobs",
       Operation::kSeeJobs,
       [&app](const Call& call) { return ListJobs(app, call); }},
      {"GET",
       "/v1/jobs/{ref}",
       Operation::kSeeJobs,
       [&app](const Call& call) { return Show(app, call); }},
      {"GET",
       "/v1/jobs/{ref}/why",
       Operation::kSeeInside,
       [&app](const Call& call) { return Why(app, call); }},
      {"POST", "/v1/jobs/{ref}/suspend", Operation::kControlJob, control(v1::JOB_VERB_SUSPEND)},
      {"POST", "/v1/jobs/{ref}/resume", Operation::kControlJob, control(v1::JOB_VERB_RESUME)},
      {"POST", "/v1/jobs/{ref}/cancel", Operation::kControlJob, control(v1::JOB_VERB_CANCEL)},
      {"POST", "/v1/jobs/{ref}/move", Operation::kControlJob, control(v1::JOB_VERB_MOVE)},
  };
}

}  // namespace tide::api
