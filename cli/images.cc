// tide images, images pull: what nodes keep, and fetching it before a job needs it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/image_pull.h"
#include "cli/verbs.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

constexpr size_t kNamedMax = 5;    // nodes and sets, where something is wrong with many
constexpr size_t kReasonsMax = 3;  // why nodes cannot be asked
constexpr size_t kDigestCells = 19;

struct ImagesOptions {
  NodesOfImages nodes;
  NodesOfImages pull_nodes;
  std::string image;
  bool all = false;
};

Table ImageTable(const json& list) {
  // The tag is at the name's end: other columns go before it is cut.
  Table table({{.title = "IMAGE", .min_width = 40},
               {.title = "DIGEST", .drop_rank = 4},
               {.title = "SIZE", .right = true, .drop_rank = 1},
               {.title = "NODES", .right = true},
               {.title = "IN USE", .right = true, .drop_rank = 2},
               {.title = "USED", .right = true, .drop_rank = 3}});
  const Instant now = SystemNow();
  for (const json& image : Items(list, "items")) {
    const json& names = Items(image, "names");
    const std::string digest = Text(image, "digest").substr(0, kDigestCells);
    std::string name =
        names.empty() || !names[0].is_string() ? digest : names[0].get<std::string>();
    const std::string used = Since(Time(image, "used_at"), now);
    if (names.size() > 1) {
      name += " +" + std::to_string(names.size() - 1);
    }
    table.Add({{name},
               {digest},
               {ShortBytes(Number(image, "bytes", 0))},
               {std::to_string(Items(image, "nodes").size())},
               {std::to_string(Items(image, "in_use_on").size())},
               {used.empty() ? "" : used + " ago"}});
  }
  return table;
}

// Returns false where nobody answered.
bool TellUnreachable(const Context& context, const json& list) {
  const json& unreachable = Items(list, "unreachable");
  const auto asked = static_cast<size_t>(Number(list, "asked", 0));
  if (unreachable.empty()) {
    return true;
  }
  std::map<std::string, std::set<std::string>> reasons;  // the nodes of each
  for (const json& each : unreachable) {
    reasons[Text(each, "error")].insert(Text(each, "node"));
  }
  std::vector<std::string> parts;
  for (const auto& [why, nodes] : reasons) {
    parts.push_back(NamesInShort(nodes, kNamedMax) + (why.empty() ? "" : ": " + why));
  }
  std::string said = std::to_string(unreachable.size()) + " of " +
                     Count(static_cast<int64_t>(asked), "node") + " cannot be asked: ";
  for (size_t i = 0; i < std::min(parts.size(), kReasonsMax); ++i) {
    said += (i == 0 ? "" : "; ") + parts[i];
  }
  context.Report({kExitUnreachable, said + (parts.size() > kReasonsMax ? "; …" : ""), {}, false});
  return unreachable.size() < asked;
}

std::string QueryOf(const NodesOfImages& nodes, const std::vector<std::string>& names) {
  std::string sets;
  for (const std::string& set : ShortenNodes(names)) {
    sets += (sets.empty() ? "" : ",") + UrlStep(set);
  }
  std::string query;
  const auto add = [&](const std::string& key, const std::string& value) {
    query += value.empty() ? "" : (query.empty() ? "?" : "&") + key + "=" + value;
  };
  add("nodes", sets);
  add("zone", UrlStep(nodes.zone));
  add("group", UrlStep(nodes.group));
  return query;
}

int List(Context& context, const NodesOfImages& nodes) {
  const auto names = ExpandNodes(nodes.nodes);
  if (!names) {
    return context.Report({kExitUsage, names.error().message, {}, false});
  }
  const auto list = context.Get("/v1/images" + QueryOf(nodes, *names));
  if (!list) {
    return context.Report(list.error());
  }
  context.PrintList(*list, "digest", [&] { return ImageTable(*list); });
  if (!TellUnreachable(context, *list)) {
    return kExitUnreachable;
  }
  if (Items(*list, "items").empty()) {
    context.Hint("No images yet; have nodes fetch one with: tide images pull IMAGE --zone ZONE");
  }
  return kExitOk;
}

bool IsChosen(const NodesOfImages& nodes) {
  return !nodes.nodes.empty() || !nodes.zone.empty() || !nodes.group.empty();
}

int Pull(Context& context, const ImagesOptions& options) {
  const NodesOfImages& nodes = options.pull_nodes;
  const auto names = ExpandNodes(nodes.nodes);
  const bool chosen = IsChosen(nodes);
  std::string wrong;
  if (!names) {
    wrong = names.error().message;
  } else if (IsChosen(options.nodes)) {
    wrong = "nodes, --zone and --group belong after the image: tide images pull " + options.image +
            " NODE...";
  } else if (options.image == "host") {
    wrong = "`host` is no image: it is the node's own files, which are there";
  } else if (!chosen && !options.all) {
    wrong = "say which nodes: tide images pull " + options.image +
            " NODE..., or --zone, --group, or --all for the whole cluster";
  } else if (chosen && options.all) {
    wrong = "--all means every node; leave it out, or the names, --zone and --group";
  }
  return wrong.empty() ? PullImage(context, options.image, nodes)
                       : context.Report({kExitUsage, wrong, {}, false});
}

void AddNodeOptions(CLI::App& verb, NodesOfImages& nodes) {
  verb.add_option("nodes", nodes.nodes, "Names, such as a-l07-n[01-20]");
  verb.add_option("--zone", nodes.zone, "Nodes of this zone");
  verb.add_option("--group", nodes.group, "Nodes of this group");
}

}  // namespace

void AddImagesVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ImagesOptions>();
  CLI::App* verb = app.add_subcommand("images", "Container images that nodes keep; pull one early");
  verb->require_subcommand(0, 1);
  AddNodeOptions(*verb, options->nodes);
  CLI::App* pull = verb->add_subcommand("pull", "Have nodes fetch an image ahead of jobs");
  pull->add_option("image", options->image, "As a job names it")->required();
  AddNodeOptions(*pull, options->pull_nodes);
  pull->add_flag("--all", options->all, "Every node of the cluster");
  pull->footer(
      "Nodes fetch 32 at a time, after what their own tasks wait for. Ctrl-C ends it.\n"
      "Returns 0 when every node has the image.");
  pull->callback([options, &context] { context.exit_code = Pull(context, *options); });
  verb->callback([verb, options, &context] {
    if (verb->get_subcommands().empty()) {
      context.exit_code = List(context, options->nodes);
    }
  });
}

}  // namespace tide::cli
