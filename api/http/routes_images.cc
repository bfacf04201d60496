// Images of nodes: which there are, and fetching one ahead of the jobs that need it.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/http/image_pull.h"
#include "api/http/node_choice.h"
#include "api/upstream/images.h"

namespace tide::api {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::chrono::seconds kListTimeout{5};
constexpr size_t kImageNameMax = 4096;

// One image, on all nodes that have it.
struct ImageRow {
  std::set<std::string> names;
  std::vector<std::string> nodes;
  std::vector<std::string> in_use_on;
  uint64_t bytes = 0;
  int64_t used_at = 0;
};
using ImageRows = std::map<std::string, ImageRow>;  // by digest

void Merge(const std::string& node, const v1::ListImagesResponse& images, ImageRows& rows) {
  for (const v1::NodeImage& image : images.images()) {
    ImageRow& row = rows[image.digest()];
    row.names.insert(image.names().begin(), image.names().end());
    row.nodes.push_back(node);
    if (image.in_use()) {
      row.in_use_on.push_back(node);
    }
    row.bytes = std::max(row.bytes, image.bytes());
    row.used_at = std::max(row.used_at, image.used_at());
  }
}

ordered_json ItemsJson(const ImageRows& rows) {
  std::vector<const ImageRows::value_type*> latest_first;
  for (const auto& row : rows) {
    latest_first.push_back(&row);
  }
  std::ranges::stable_sort(
      latest_first, std::greater(), [](const auto* row) { return row->second.used_at; });
  ordered_json items = ordered_json::array();
  for (const auto* row : latest_first) {
    const auto& [digest, image] = *row;
    items.push_back({{"digest", digest},
                     {"names", image.names},
                     {"bytes", image.bytes},
                     {"nodes", image.nodes},
                     {"in_use_on", image.in_use_on},
                     {"used_at", FormatRfc3339(Instant::FromUnixNanos(image.used_at))}});
  }
  return items;
}

Outcome ListImages(App& app, const Call& call) {
  const auto nodes = ChooseNodes(app,
                                 {.nodes = SplitNodeSets(call.Query("nodes")),
                                  .zone = call.Query("zone"),
                                  .group = call.Query("group")});
  if (!nodes) {
    return std::unexpected(nodes.error());
  }
  const auto slot = app.streams.Take(call.who.user);  // it holds more threads than other requests
  if (!slot) {
    return std::unexpected(slot.error());
  }
  std::vector<Result<v1::ListImagesResponse>> answers(nodes->size());
  ForEachNode(nodes->size(), [&](size_t i) {
    const ChosenNode& node = (*nodes)[i];
    answers[i] = node.unreachable.empty()
                     ? app.images.List(node.agent, kListTimeout)
                     : std::unexpected(Error{ErrorCode::kUnavailable, node.unreachable});
  });
  ImageRows rows;
  ordered_json unreachable = ordered_json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string& node = (*nodes)[i].agent.node;
    if (answers[i]) {
      Merge(node, *answers[i], rows);
    } else {
      unreachable.push_back({{"node", node}, {"error", answers[i].error().message}});
    }
  }
  const ordered_json document = {{"items", ItemsJson(rows)},
                                 {"unreachable", std::move(unreachable)},
                                 {"asked", answers.size()},
                                 {"next_cursor", nullptr}};
  Reply reply;
  reply.body = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return reply;
}

std::expected<NodeChoice, Problem> ChoiceOfBody(const Call& call) {
  const auto zone = BodyText(call, "zone");
  const auto group = BodyText(call, "group");
  if (!zone || !group) {
    return std::unexpected(!zone ? zone.error() : group.error());
  }
  NodeChoice choice{.nodes = {}, .zone = *zone, .group = *group};
  const json body = ParseJson(call.body);  // BodyText took it
  const json nodes = body.value("nodes", json());
  const bool texts = nodes.is_array() && std::ranges::all_of(nodes, &json::is_string);
  if (!nodes.is_null() && !texts) {
    return Refuse(ErrorCode::kInvalidArgument, "`nodes` must be a list of names");
  }
  for (const json& name : nodes) {
    choice.nodes.push_back(name.get<std::string>());
  }
  return choice;
}

Outcome PullImage(App& app, const Call& call) {
  const auto image = BodyText(call, "image");
  const auto choice = ChoiceOfBody(call);
  if (!image || !choice) {
    return std::unexpected(!image ? image.error() : choice.error());
  }
  if (image->empty() || *image == "host" || image->size() > kImageNameMax) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "`image` must be the name of an image, as a job has it; `host` is none");
  }
  auto nodes = ChooseNodes(app, *choice);
  if (!nodes) {
    return std::unexpected(nodes.error());
  }
  const auto slot = app.streams.Take(call.who.user);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  // The nodes do it, not the scheduler, which would have recorded it.
  if (const Status recorded = RecordAudit(app, call, {"image " + *image, "", {}}); !recorded) {
    return std::unexpected(ToProblem(recorded.error()));
  }
  v1::PullImageRequest request;
  request.set_image(*image);
  request.set_actor(call.who.user);
  const auto pull = std::make_shared<ImagePull>(app.images, *std::move(nodes), std::move(request));
  Reply reply;
  reply.content_type = "application/x-ndjson";
  reply.stream = [pull, slot = *slot, heartbeat = app.stream_heartbeat](BodySink& sink) {
    pull->Run(sink, heartbeat);
  };
  return reply;
}

}  // namespace

Routes ImageRoutes(App& app) {
  return {
      {"GET",
       "/v1/images",
       Operation::kSeeImages,
       [&app](const Call& c) { return ListImages(app, c); }},
      {"POST",
       "/v1/images/pull",
       Operation::kPullImage,
       [&app](const Call& c) { return PullImage(app, c); }},
  };
}

}  // namespace tide::api
