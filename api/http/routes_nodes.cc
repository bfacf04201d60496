// Nodes and faults.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/http/body.h"
#include "api/http/routes.h"
#include "common/base/time.h"
#include "common/spec/span_text.h"

namespace tide::api {
namespace {

using nlohmann::json;

Outcome ListNodes(const App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto page = ParsePage(call, 1000);
  if (!view || !page) {
    return std::unexpected(!view ? view.error() : page.error());
  }
  ListWriter list(*page);
  for (const auto& [name, row] : (*view)->nodes) {
    if (list.Count(!page->cursor.empty() && name <= page->cursor)) {
      list.Put(row->json(), name);
    }
  }
  return list.Finish(app, **view, call);
}

std::string NoSuchNode(const std::string& name) {
  return "there is no node " + name + "; `tide nodes` lists what there is";
}

Outcome ShowNode(const App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto it = (*view)->nodes.find(call.Path("name"));
  if (it == (*view)->nodes.end()) {
    return Refuse(ErrorCode::kNotFound, NoSuchNode(call.Path("name")));
  }
  Reply reply;
  reply.body = it->second->json();
  return reply;
}

using Moment = std::optional<v1::Moment>;

// Nothing where the body does not have the key.
std::expected<Moment, Problem> BodyMoment(const Call& call, const std::string& key) {
  const auto text = BodyText(call, key);
  if (!text || !HasBodyKey(call, key)) {
    return text ? std::expected<Moment, Problem>() : std::unexpected(text.error());
  }
  v1::Moment moment;
  if (const auto at = ParseRfc3339(*text)) {
    moment.set_at(at->unix_nanos());
  } else if (const auto span = ParseSpan(*text)) {
    moment.set_in_ms(static_cast<uint64_t>(span->millis()));
  } else {
    return Refuse(ErrorCode::kInvalidArgument,
                  "`" + key + "`: " + Quoted(text->substr(0, 40)) +
                      " is neither a time such as 2026-01-31T08:00:00Z (UTC, until the year 2261) "
                      "nor a duration from now such as 90m");
  }
  return moment;
}

// Takes the times that a drain names; no other verb has any.
std::expected<void, Problem> TakeTimes(const Call& call, v1::ControlNodeRequest& request) {
  for (const std::string key : {"deadline", "from", "until"}) {
    auto moment = BodyMoment(call, key);
    if (!moment) {
      return std::unexpected(moment.error());
    }
    if (!*moment) {
      continue;
    }
    if (request.verb() != v1::NODE_VERB_DRAIN) {
      return Refuse(ErrorCode::kInvalidArgument, "`" + key + "` belongs to drain alone");
    }
    v1::Moment& named = key == "deadline" ? *request.mutable_deadline()
                        : key == "from"   ? *request.mutable_from()
                                          : *request.mutable_until();
    named = std::move(**moment);
  }
  return {};
}

Outcome ControlNode(App& app, const Call& call, v1::NodeVerb verb) {
  const auto view = NeedView(app);
  const auto reason = BodyText(call, "reason");
  if (!view || !reason) {
    return std::unexpected(!view ? view.error() : reason.error());
  }
  const std::string name = call.Path("name");
  if (!(*view)->nodes.contains(name)) {
    return Refuse(ErrorCode::kNotFound, NoSuchNode(name));
  }
  v1::ControlNodeRequest request;
  request.set_node(name);
  request.set_verb(verb);
  *request.mutable_caller() = call.Caller();
  request.set_reason(*reason);
  const json with = ParseJson(call.body).value("with", json());  // BodyText took it
  if (!with.is_null() && verb != v1::NODE_VERB_VALIDATE) {
    return Refuse(ErrorCode::kInvalidArgument, "`with` belongs to validate alone");
  }
  if (!with.is_null() && !(with.is_array() && std::ranges::all_of(with, &json::is_string))) {
    return Refuse(ErrorCode::kInvalidArgument, "`with` must be a list of names");
  }
  for (const json& other : with) {
    request.add_with(other.get<std::string>());
  }
  if (const auto times = TakeTimes(call, request); !times) {
    return std::unexpected(times.error());
  }
  const auto rev = app.scheduler.Control(request);
  if (!rev) {
    return std::unexpected(ToProblem(rev.error()));
  }
  AwaitRev(app, *rev);
  return ShowNode(app, call);
}

Outcome RemoveNode(App& app, const Call& call) {
  v1::ControlNodeRequest request;
  request.set_node(call.Path("name"));
  request.set_verb(v1::NODE_VERB_REMOVE);
  *request.mutable_caller() = call.Caller();
  request.set_reason(call.Query("reason"));
  const auto rev = app.scheduler.Control(request);
  if (!rev) {
    return std::unexpected(ToProblem(rev.error()));
  }
  AwaitRev(app, *rev);
  Reply reply;
  reply.body = R"({"removed":)" + Quoted(call.Path("name")) + "}";
  return reply;
}

Outcome ListFaults(const App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto page = ParsePage(call, 100);
  if (!view || !page) {
    return std::unexpected(!view ? view.error() : page.error());
  }
  const auto below = ParseNumber(call, "cursor", INT64_MAX);
  if (!below) {
    return std::unexpected(below.error());
  }
  ListWriter list(*page);
  for (auto it = (*view)->incidents.rbegin(); it != (*view)->incidents.rend(); ++it) {
    if (list.Count(it->first >= static_cast<uint64_t>(*below))) {
      list.Put(it->second->json(), std::to_string(it->first));
    }
  }
  return list.Finish(app, **view, call);
}

std::optional<uint64_t> IncidentOf(const Call& call) {
  const std::string text = call.Path("id");
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(id)
                                                                  : std::nullopt;
}

Outcome VouchFault(App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto reason = BodyText(call, "reason");
  if (!view || !reason) {
    return std::unexpected(!view ? view.error() : reason.error());
  }
  const auto id = IncidentOf(call);
  const auto& incidents = (*view)->incidents;
  if (!id || !incidents.contains(*id)) {
    return Refuse(ErrorCode::kNotFound,
                  "there is no fault " + call.Path("id") + "; `tide faults` lists what there is");
  }
  v1::ControlNodeRequest request;
  request.set_node(incidents.at(*id)->message.node());
  request.set_verb(v1::NODE_VERB_VOUCH);
  request.set_incident(*id);
  *request.mutable_caller() = call.Caller();
  request.set_reason(*reason);
  const auto rev = app.scheduler.Control(request);
  if (!rev) {
    return std::unexpected(ToProblem(rev.error()));
  }
  AwaitRev(app, *rev);
  const auto now = NeedView(app);
  if (!now || !(*now)->incidents.contains(*id)) {
    return Refuse(ErrorCode::kNotFound, "fault " + call.Path("id") + " is not kept any more");
  }
  Reply reply;
  reply.body = (*now)->incidents.at(*id)->json();
  return reply;
}

}  // namespace

Routes NodeRoutes(App& app) {
  const auto control = [&app](v1::NodeVerb verb) {
    return [&app, verb](const Call& call) { return ControlNode(app, call, verb); };
  };
  return {
      {"GET",
       "/v1/nodes",
       Operation::kSeeNodes,
       [&app](const Call& c) { return ListNodes(app, c); }},
      {"GET",
       "/v1/nodes/{name}",
       Operation::kSeeNodes,
       [&app](const Call& c) { return ShowNode(app, c); }},
      {"DELETE",
       "/v1/nodes/{name}",
       Operation::kControlNode,
       [&app](const Call& c) { return RemoveNode(app, c); }},
      {"POST", "/v1/nodes/{name}/drain", Operation::kControlNode, control(v1::NODE_VERB_DRAIN)},
      {"POST", "/v1/nodes/{name}/undrain", Operation::kControlNode, control(v1::NODE_VERB_UNDRAIN)},
      {"POST",
       "/v1/nodes/{name}/validate",
       Operation::kControlNode,
       control(v1::NODE_VERB_VALIDATE)},
      {"GET",
       "/v1/faults",
       Operation::kSeeFaults,
       [&app](const Call& c) { return ListFaults(app, c); }},
      {"POST",
       "/v1/faults/{id}/ack",
       Operation::kControlNode,
       [&app](const Call& c) { return VouchFault(app, c); }},
  };
}

}  // namespace tide::api
