// Commands inside running tasks: POST /v1/jobs/{ref}/exec, and the session that it gives.

#include <charconv>
#include <nlohmann/json.hpp>

#include "api/exec/exec_sessions.h"
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
  const ExecBody body = ExecBody::parse(call.body.empty() ? "{}" : call.body, nullptr, false);
  if (!body.is_object()) {
    return BadBody("the body is not a JSON object");
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

struct ExecPlace {
  std::string node;
  std::string endpoint;
};

// The agent of the rank; fills in which task it is.
std::expected<ExecPlace, Problem> FindPlace(const View& view,
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
  return ExecPlace{task->node(), node->second->message.endpoint()};
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

Outcome StartExec(App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto job = NeedJob(app, call);
  auto start = ReadStart(call);
  if (!view || !job || !start) {
    return std::unexpected(!view ? view.error() : !job ? job.error() : start.error());
  }
  if (app.exec == nullptr) {
    return RefuseStatus(403,
                        "exec_forbidden",
                        "this server runs no commands, as it keeps no record of them; start "
                        "tide-api with --audit-log FILE");
  }
  AuditRecord record = RecordOf(call, (*job)->message, *start);
  const auto refuse = [&](const Problem& problem, const char* event) -> Outcome {
    record.event = event;
    record.reason = problem.detail;
    if (const Status recorded = app.exec->audit().Record(record); !recorded) {
      return std::unexpected(ToProblem(recorded.error()));
    }
    return std::unexpected(problem);
  };
  if (const auto allowed = CheckAllowed(**view, call, (*job)->message); !allowed) {
    return refuse(allowed.error(), "refused");
  }
  const auto place = FindPlace(**view, (*job)->message, *start);
  if (!place) {
    return refuse(place.error(), "failed");
  }
  start->set_actor(call.who.user);
  record.attempt = start->epoch();
  record.node = place->node;
  const auto session = app.exec->Start(place->endpoint, *start, record);
  if (!session) {
    return std::unexpected(ToProblem(session.error()));
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
  auto slot = app.streams.Take();
  if (slot == nullptr) {
    return Refuse(ErrorCode::kUnavailable, "too many streams are open; try again in a moment");
  }
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.stream = [session = *session, from, slot](BodySink& sink) {
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
