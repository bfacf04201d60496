// Commands inside running tasks: POST /v1/jobs/{ref}/exec, and the session that it gives.

#include <charconv>
#include <nlohmann/json.hpp>

#include "api/exec/exec_sessions.h"
#include "api/http/body.h"
#include "api/http/routes.h"
#include "api/view/json.h"
#include "common/exec/limits.h"

namespace tide::api {
namespace {

using ExecBody = nlohmann::json;

// Frames of input in one request: less than the window, so that nothing is refused for its size.
constexpr size_t kInputMax = kExecWindow + (16U << 10U);

std::unexpected<Problem> BadBody(const std::string& what) {
  return Refuse(ErrorCode::kInvalidArgument, what);
}

std::expected<uint32_t, Problem> ReadWhole(const ExecBody& body,
                                           const char* key,
                                           uint32_t low,
                                           uint32_t high) {
  const auto it = body.find(key);
  if (it == body.end() || !it->is_number_unsigned() || it->get<uint64_t>() < low ||
      it->get<uint64_t>() > high) {
    return BadBody("`" + std::string(key) + "` must be a whole number from " + std::to_string(low) +
                   " to " + std::to_string(high));
  }
  return it->get<uint32_t>();
}

std::expected<void, Problem> ReadArguments(const ExecBody& argv, v1::ExecStart& start) {
  size_t bytes = 0;
  const bool list = argv.is_array() && !argv.empty() && argv.size() <= kExecArgumentsMax;
  for (const ExecBody& word : list ? argv : ExecBody::array()) {
    if (!word.is_string() || word.get_ref<const std::string&>().find('\0') != std::string::npos) {
      return BadBody("`argv` must be texts without zero bytes");
    }
    bytes += word.get_ref<const std::string&>().size();
    start.add_argv(word.get<std::string>());
  }
  if (!list || bytes > kExecArgumentBytesMax || start.argv(0).empty()) {
    return BadBody("`argv` must be a program and its arguments: 1 to " +
                   std::to_string(kExecArgumentsMax) + " texts, " +
                   std::to_string(kExecArgumentBytesMax >> 10U) + " KiB together");
  }
  return {};
}

std::expected<void, Problem> ReadTerminal(const ExecBody& terminal, v1::ExecStart& start) {
  if (!terminal.is_object()) {
    return BadBody("`terminal` must be an object with `rows`, `columns` and `type`");
  }
  const auto rows = ReadWhole(terminal, "rows", 1, kTerminalSideMax);
  const auto columns = ReadWhole(terminal, "columns", 1, kTerminalSideMax);
  if (!rows || !columns) {
    return std::unexpected(!rows ? rows.error() : columns.error());
  }
  start.mutable_terminal()->set_rows(*rows);
  start.mutable_terminal()->set_columns(*columns);
  const auto type = terminal.find("type");
  if (type != terminal.end() && !type->is_null()) {
    if (!type->is_string() || type->get_ref<const std::string&>().size() > kTerminalTypeMax ||
        type->get_ref<const std::string&>().find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._") !=
            std::string::npos) {
      return BadBody("`terminal.type` must be the name of a terminal, such as xterm-256color");
    }
    start.set_terminal_type(type->get<std::string>());
  }
  return {};
}

std::expected<v1::ExecStart, Problem> ReadStart(const Call& call) {
  const ExecBody body = ParseJson(call.body);
  if (!body.is_object()) {
    return BadBody(kNoObject);
  }
  v1::ExecStart start;
  for (const auto& [key, value] : body.items()) {
    std::expected<void, Problem> read;
    if (key == "argv" && !value.is_null()) {
      read = ReadArguments(value, start);
    } else if (key == "terminal" && !value.is_null()) {
      read = ReadTerminal(value, start);
    } else if (key == "rank" && !value.is_null()) {
      const auto rank = ReadWhole(body, "rank", 0, UINT32_MAX);
      if (!rank) {
        return std::unexpected(rank.error());
      }
      start.set_rank(*rank);
    } else if (key != "argv" && key != "terminal" && key != "rank") {
      return BadBody("unknown key `" + key.substr(0, 40) + "`; there are argv, rank, terminal");
    }
    if (!read) {
      return std::unexpected(read.error());
    }
  }
  return start;
}

// What the project says, beyond the table of permissions.
std::expected<void, Problem> CheckAllowed(const View& view, const Call& call, const v1::Job& job) {
  const Member* member = call.people->FindMember(job.spec().project(), call.who.user);
  if (member != nullptr && !member->exec && call.who.role < Role::kOperator) {
    return RefuseStatus(403,
                        "exec_forbidden",
                        call.who.user + " may not run commands in tasks of project " +
                            job.spec().project() +
                            "; an admin can change that: `tide project add " +
                            job.spec().project() + " " + call.who.user + " --exec`");
  }
  if (!view.no_exec) {
    return RefuseStatus(403,
                        "exec_forbidden",
                        "the scheduler does not say which projects allow commands in their tasks; "
                        "it is of an older release");
  }
  if (view.no_exec->contains(job.spec().project())) {
    return RefuseStatus(403,
                        "exec_forbidden",
                        "project " + job.spec().project() +
                            " does not allow commands in its tasks (`exec: false` in the policy)");
  }
  return {};
}

// The agent of the rank; fills in which task it is.
std::expected<AgentPlace, Problem> FindPlace(const View& view,
                                             const v1::Job& job,
                                             v1::ExecStart& start) {
  const std::string name = FormatJobName(job.id());
  const bool holds_nodes = job.state() == v1::JOB_STATE_STARTING ||
                           job.state() == v1::JOB_STATE_RUNNING ||
                           job.state() == v1::JOB_STATE_SAVING;
  if (!holds_nodes || job.attempts().empty()) {
    return Refuse(ErrorCode::kConflict,
                  name + " is " + std::string(StateWord(job.state())) +
                      "; only a running job can be entered: `tide wait " + name +
                      " --for state=running`");
  }
  const v1::Attempt& attempt = *job.attempts().rbegin();
  const uint32_t per_node = std::max(1U, job.spec().ranks_per_node());
  const auto task = std::ranges::find(
      attempt.tasks(), start.rank() / per_node, [](const v1::Task& each) { return each.index(); });
  if (task == attempt.tasks().end()) {
    return Refuse(ErrorCode::kNotFound,
                  name + " has ranks 0 to " + std::to_string(job.spec().nodes() * per_node - 1));
  }
  const auto node = view.nodes.find(task->node());
  if (node == view.nodes.end() || node->second->message.endpoint().empty()) {
    return Refuse(ErrorCode::kUnavailable, "node " + task->node() + " cannot be reached now");
  }
  start.set_job_id(job.id());
  start.set_epoch(attempt.epoch());
  start.set_task(task->index());
  start.set_submitted_at(job.submitted_at());
  return AgentPlace{task->node(), node->second->message.endpoint()};
}

AuditRecord RecordOf(const Call& call, const v1::Job& job, const v1::ExecStart& start) {
  AuditRecord record;
  record.command = RandomHex(4);
  record.request_id = call.request_id;
  record.user = call.who.user;
  record.role = RoleName(call.who.role);
  record.job = FormatJobName(job.id());
  record.job_user = job.user();
  record.project = job.spec().project();
  record.rank = start.rank();
  record.terminal = start.has_terminal();
  if (start.argv_size() > 0) {
    record.program = start.argv(0);
    record.arguments = static_cast<uint64_t>(start.argv_size()) - 1;
  }
  return record;
}

// Returns what says whether the caller still may: by the same token, with the same role and
// standing to the job, and as its project allows.
std::function<bool()> StillMay(const ViewStore& store, const Call& call, const v1::Job& job) {
  Call asked;
  asked.who = call.who;
  v1::Job about;
  about.set_user(job.user());
  about.mutable_spec()->set_project(job.spec().project());
  return [&store, still = StillSignedIn(store, call.who), asked, about]() mutable {
    const ViewPtr view = store.Get();
    asked.people = view->people;
    return still.Check() &&
           IsAllowed(
               asked.who.role, asked.who.scopes, Operation::kRunCommand, asked.RelationTo(about)) &&
           CheckAllowed(*view, asked, about);
  };
}

// A command that may be started.
struct AllowedExec {
  AgentPlace place;
  v1::ExecStart start;
  AuditRecord record;
};

// Errors: it may not be, which the record of commands has then.
std::expected<AllowedExec, Problem> AllowExec(App& app, const Call& call, const v1::Job& job) {
  const auto view = NeedView(app);
  auto start = ReadStart(call);
  if (!view || !start) {
    return std::unexpected(!view ? view.error() : start.error());
  }
  if (app.exec == nullptr) {
    return RefuseStatus(403,
                        "exec_forbidden",
                        "this server runs no commands, as it keeps no record of them; start "
                        "tide-api with --audit-log FILE");
  }
  AuditRecord record = RecordOf(call, job, *start);
  const auto refuse = [&](const Problem& problem, const char* event) -> std::unexpected<Problem> {
    record.event = event;
    record.reason = problem.detail;
    const Status recorded = app.exec->audit().Record(record);
    return std::unexpected(recorded ? problem : ToProblem(recorded.error()));
  };
  if (const auto allowed = CheckAllowed(**view, call, job); !allowed) {
    return refuse(allowed.error(), "refused");
  }
  auto place = FindPlace(**view, job, *start);
  if (!place) {
    return refuse(place.error(), "failed");
  }
  start->set_actor(call.who.user);
  record.attempt = start->epoch();
  record.node = place->node;
  return AllowedExec{*std::move(place), *std::move(start), std::move(record)};
}

// Starts a command once the audit has it; one that does not begin is recorded as that, too.
Outcome StartExec(App& app, const Call& call) {
  const auto job = NeedJob(app, call);
  if (!job) {
    return std::unexpected(job.error());
  }
  const v1::Job& target = (*job)->message;
  AuditNote note{FormatJobName(target.id()), target.user(), {}};
  const auto refuse = [&](const Problem& problem) -> std::unexpected<Problem> {
    note.refusal = problem;
    const Status recorded = RecordAudit(app, call, note);
    return std::unexpected(recorded ? problem : ToProblem(recorded.error()));
  };
  const auto allowed = AllowExec(app, call, target);
  if (!allowed) {
    return refuse(allowed.error());
  }
  if (const Status recorded = RecordAudit(app, call, note); !recorded) {
    return std::unexpected(ToProblem(recorded.error()));
  }
  const AuditRecord& record = allowed->record;
  const auto session =
      app.exec->Start(allowed->place, allowed->start, record, StillMay(app.store, call, target));
  if (!session) {
    return refuse(ToProblem(session.error()));
  }
  Reply reply;
  reply.status = 201;
  reply.body = ExecBody{{"session", *session},
                        {"job", record.job},
                        {"attempt", record.attempt},
                        {"rank", record.rank},
                        {"node", record.node},
                        {"window", kExecWindow}}
                   .dump();
  return reply;
}

std::expected<std::shared_ptr<ExecSession>, Problem> NeedSession(App& app, const Call& call) {
  auto session =
      app.exec == nullptr ? nullptr : app.exec->Find(call.Path("session"), call.who.user);
  if (session == nullptr) {
    return Refuse(ErrorCode::kNotFound, "there is no such session; it may have ended");
  }
  return session;
}

Outcome ExecOutputOf(App& app, const Call& call) {
  const auto session = NeedSession(app, call);
  const auto offset = ParseNumber(call, "offset", 0);
  if (!session || !offset) {
    return std::unexpected(!session ? session.error() : offset.error());
  }
  const auto from = static_cast<uint64_t>(*offset);
  if (const Status there = (*session)->CheckOffset(from); !there) {
    return std::unexpected(ToProblem(there.error()));
  }
  const auto slot = app.streams.Take(call.who.user);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.stream = [session = *session, from, slot = *slot](BodySink& sink) {
    session->CopyOutput(from, sink);
  };
  return reply;
}

Outcome ExecInputOf(App& app, const Call& call) {
  const auto session = NeedSession(app, call);
  const auto seq = ParseNumber(call, "seq", 0);
  if (!session || !seq) {
    return std::unexpected(!session ? session.error() : seq.error());
  }
  if (*seq <= 0) {
    return Refuse(ErrorCode::kInvalidArgument, "`seq` counts from 1");
  }
  if (call.body.size() > kInputMax) {
    return RefuseStatus(
        413, "too_large", "input may have up to " + std::to_string(kInputMax) + " bytes at a time");
  }
  if (const Status taken = (*session)->Input(static_cast<uint64_t>(*seq), call.body); !taken) {
    return std::unexpected(ToProblem(taken.error()));
  }
  Reply reply;
  reply.body = "{}";
  return reply;
}

Outcome EndExec(App& app, const Call& call) {
  if (app.exec == nullptr || !app.exec->End(call.Path("session"), call.who.user)) {
    return Refuse(ErrorCode::kNotFound, "there is no such session; it may have ended");
  }
  Reply reply;
  reply.body = "{}";
  return reply;
}

}  // namespace

Routes ExecRoutes(App& app) {
  return {{"POST",
           "/v1/jobs/{ref}/exec",
           Operation::kRunCommand,
           [&app](const Call& call) { return StartExec(app, call); }},
          {"GET",
           "/v1/exec/{session}/output",
           Operation::kRunCommand,
           [&app](const Call& call) { return ExecOutputOf(app, call); }},
          {"POST",
           "/v1/exec/{session}/input",
           Operation::kRunCommand,
           [&app](const Call& call) { return ExecInputOf(app, call); }},
          {"DELETE", "/v1/exec/{session}", Operation::kRunCommand, [&app](const Call& call) {
             return EndExec(app, call);
           }}};
}

}  // namespace tide::api
