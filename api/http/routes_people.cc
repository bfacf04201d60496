// Users, projects and the audit.

#include <nlohmann/json.hpp>

#include "api/http/body.h"
#include "api/http/routes.h"
#include "api/view/json.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "proto/wire/people.h"

namespace tide::api {
namespace {

constexpr size_t kAuditMost = 1000;

Json UserJson(const User& user) {
  return {{"name", user.name},
          {"number", user.number},
          {"role", RoleName(user.role)},
          {"uid", user.uid == 0 ? Json(nullptr) : Json(user.uid)},
          {"gids", user.gids},
          {"project", user.project.empty() ? Json(nullptr) : Json(user.project)},
          {"created_at", FormatRfc3339(user.created_at)}};
}

Json ProjectJson(const Project& project) {
  Json members = Json::array();
  for (const Member& member : project.members) {
    members.push_back({{"user", member.user},
                       {"max_class", PriorityName(member.max_class)},
                       {"exec", member.exec}});
  }
  return {{"name", project.name},
          {"visibility", project.visible ? "project" : "owner"},
          {"members", std::move(members)},
          {"created_at", FormatRfc3339(project.created_at)}};
}

// Has the scheduler do it, and answers with what was changed.
Outcome Change(App& app, const Call& call, v1::ChangePeopleRequest request, int status = 200) {
  *request.mutable_caller() = call.Caller();
  const auto changed = app.scheduler.ChangePeople(request);
  if (!changed) {
    return std::unexpected(ToProblem(changed.error()));
  }
  AwaitRev(app, changed->rev());
  return JsonReply(changed->has_user() ? UserJson(wire::FromProto(changed->user()))
                                       : ProjectJson(wire::FromProto(changed->project())),
                   status);
}

std::optional<Role> ReadRole(Body& body) {
  const auto name = body.Text("role");
  const auto role = name ? ParseRole(*name) : std::nullopt;
  if (name && !role) {
    body.Refuse("role", "viewer, user, operator or admin");
  }
  return role;
}

std::optional<int32_t> ReadClass(Body& body) {
  const auto name = body.Text("max_class");
  if (!name) {
    return std::nullopt;
  }
  const auto value = ParsePriority(*name);
  if (!value) {
    body.Refuse("max_class", "a class, such as normal or high");
    return std::nullopt;
  }
  return *value;
}

Outcome AddUser(App& app, const Call& call) {
  auto body = Body::Read(call, {"name", "role", "uid", "gids", "project", "again"});
  if (!body) {
    return std::unexpected(body.error());
  }
  v1::ChangePeopleRequest request;
  v1::AddUser& add = *request.mutable_add_user();
  add.set_name(body->Text("name").value_or(""));
  add.set_role(wire::ToProto(ReadRole(*body).value_or(Role::kUser)));
  add.set_uid(body->Number("uid").value_or(0));
  const std::vector<uint32_t> gids = body->Numbers("gids");
  add.mutable_gids()->Assign(gids.begin(), gids.end());
  add.set_project(body->Text("project").value_or(""));
  add.set_again(body->Flag("again").value_or(false));
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  return Change(app, call, std::move(request), 201);
}

Outcome SetUser(App& app, const Call& call) {
  auto body = Body::Read(call, {"role", "uid", "gids", "project"});
  if (!body) {
    return std::unexpected(body.error());
  }
  v1::ChangePeopleRequest request;
  v1::SetUser& set = *request.mutable_set_user();
  set.set_name(call.Path("name"));
  if (const auto role = ReadRole(*body)) {
    set.set_role(wire::ToProto(*role));
  }
  if (const auto uid = body->Number("uid")) {
    set.set_uid(*uid);
  }
  const std::vector<uint32_t> gids = body->Numbers("gids");
  set.mutable_gids()->Assign(gids.begin(), gids.end());
  if (const auto project = body->Text("project")) {
    set.set_project(*project);
  }
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  return Change(app, call, std::move(request));
}

Outcome RemoveUser(App& app, const Call& call) {
  v1::ChangePeopleRequest request;
  request.set_remove_user(call.Path("name"));
  return Change(app, call, std::move(request));
}

// All of them to who may see all; to others themselves.
Outcome ListUsers(const App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  Json items = Json::array();
  for (const auto& [number, user] : (*view)->people->users()) {
    const Relation relation = user.name == call.who.user ? Relation::kOwn : Relation::kOther;
    if (IsAllowed(call.who.role, call.who.scopes, call.operation, relation)) {
      items.push_back(UserJson(user));
    }
  }
  return JsonReply({{"items", std::move(items)}, {"next_cursor", nullptr}});
}

Outcome ListProjects(const App& app) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  Json items = Json::array();
  for (const auto& [number, project] : (*view)->people->projects()) {
    items.push_back(ProjectJson(project));
  }
  return JsonReply({{"items", std::move(items)}, {"next_cursor", nullptr}});
}

// "project" = members see the inside of each other's jobs, "owner" = they do not.
std::optional<bool> ReadVisibility(Body& body) {
  const auto word = body.Text("visibility");
  if (word && *word != "project" && *word != "owner") {
    body.Refuse("visibility", "project or owner");
  }
  return word ? std::optional(*word == "project") : std::nullopt;
}

Outcome SetProject(App& app, const Call& call) {
  auto body = Body::Read(call, {"visibility"});
  if (!body) {
    return std::unexpected(body.error());
  }
  v1::ChangePeopleRequest request;
  v1::SetProject& set = *request.mutable_set_project();
  set.set_name(call.Path("name"));
  if (const auto visible = ReadVisibility(*body)) {
    set.set_visible(*visible);
  }
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  return Change(app, call, std::move(request));
}

Outcome RemoveProject(App& app, const Call& call) {
  v1::ChangePeopleRequest request;
  request.set_remove_project(call.Path("name"));
  return Change(app, call, std::move(request));
}

Outcome SetMember(App& app, const Call& call) {
  auto body = Body::Read(call, {"max_class", "exec"});
  if (!body) {
    return std::unexpected(body.error());
  }
  v1::ChangePeopleRequest request;
  v1::SetMember& set = *request.mutable_set_member();
  set.set_project(call.Path("name"));
  set.set_user(call.Path("user"));
  if (const auto most = ReadClass(*body)) {
    set.set_max_class(*most);
  }
  if (const auto exec = body->Flag("exec")) {
    set.set_exec(*exec);
  }
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  return Change(app, call, std::move(request));
}

Outcome RemoveMember(App& app, const Call& call) {
  v1::ChangePeopleRequest request;
  request.mutable_remove_member()->set_project(call.Path("name"));
  request.mutable_remove_member()->set_user(call.Path("user"));
  return Change(app, call, std::move(request));
}

Json EntryJson(const v1::AuditEntry& entry) {
  return {{"seq", entry.seq()},
          {"at", FormatRfc3339(Instant::FromUnixNanos(entry.at()))},
          {"user", entry.user()},
          {"token", entry.token()},
          {"address", entry.address()},
          {"operation", entry.operation()},
          {"object", entry.object()},
          {"owner", entry.owner()},
          {"outcome", entry.outcome()},
          {"detail", entry.detail()},
          {"request_id", entry.request_id()}};
}

Outcome ListAudit(App& app, const Call& call) {
  const auto from = ParseNumber(call, "from", 1);
  const auto page = ParsePage(call, kAuditMost);
  const auto since = ParseTime(call, "since", SystemNow());
  const auto until = ParseTime(call, "until", SystemNow());
  for (const auto* number : {&from, &since, &until}) {
    if (!*number) {
      return std::unexpected(number->error());
    }
  }
  if (!page) {
    return std::unexpected(page.error());
  }
  v1::ReadAuditRequest request;
  *request.mutable_caller() = call.Caller();
  request.set_from(static_cast<uint64_t>(*from));
  request.set_most(static_cast<uint32_t>(page->limit));
  request.set_since(*since);
  request.set_until(*until);
  request.set_user(call.Query("user"));
  request.set_operation(call.Query("operation"));
  const auto read = app.scheduler.ReadAudit(request);
  if (!read) {
    return std::unexpected(ToProblem(read.error()));
  }
  Json items = Json::array();
  for (const v1::AuditEntry& entry : read->entries()) {
    items.push_back(EntryJson(entry));
  }
  const bool more = static_cast<size_t>(read->entries_size()) == page->limit;
  return JsonReply(
      {{"items", std::move(items)},
       {"next_from", more ? Json(read->entries().rbegin()->seq() + 1) : Json(nullptr)}});
}

}  // namespace

Routes PeopleRoutes(App& app) {
  using Answer = Outcome (*)(App&, const Call&);
  const auto with = [&app](Answer answer) {
    return [&app, answer](const Call& call) { return answer(app, call); };
  };
  return {
      {"GET",
       "/v1/users",
       Operation::kSeeUsers,
       [&app](const Call& call) { return ListUsers(app, call); }},
      {"POST", "/v1/users", Operation::kManageUsers, with(AddUser)},
      {"PATCH", "/v1/users/{name}", Operation::kManageUsers, with(SetUser)},
      {"DELETE", "/v1/users/{name}", Operation::kManageUsers, with(RemoveUser)},
      {"GET",
       "/v1/projects",
       Operation::kSeeProjects,
       [&app](const Call&) { return ListProjects(app); }},
      {"PUT", "/v1/projects/{name}", Operation::kManageProjects, with(SetProject)},
      {"DELETE", "/v1/projects/{name}", Operation::kManageProjects, with(RemoveProject)},
      {"PUT", "/v1/projects/{name}/members/{user}", Operation::kManageProjects, with(SetMember)},
      {"DELETE",
       "/v1/projects/{name}/members/{user}",
       Operation::kManageProjects,
       with(RemoveMember)},
      {"GET", "/v1/audit", Operation::kReadAudit, with(ListAudit)},
  };
}

}  // namespace tide::api
