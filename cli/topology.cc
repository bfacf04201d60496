// tide admin topology check FILE: what a cluster file describes, or every mistake in it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/context.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/cluster/cluster_text.h"

namespace tide::cli {
namespace {

constexpr size_t kFileMax = 16U << 20U;  // longer than any cluster file: the reader says what is

uint64_t CountGpus(const ClusterSpec& cluster, const LeafSpec& leaf) {
  return leaf.nodes.size() * uint64_t{FindGroup(cluster, leaf.group)->gpus_per_node};
}

// What the tables and the JSON say of one zone.
struct ZoneSummary {
  size_t nodes = 0;
  uint64_t gpus = 0;
  size_t fewest = SIZE_MAX;  // nodes of a leaf
  size_t most = 0;
  std::set<std::string> groups;
};

ZoneSummary Summarise(const ClusterSpec& cluster, const ZoneSpec& zone) {
  ZoneSummary sum;
  for (const LeafSpec& leaf : zone.leaves) {
    sum.nodes += leaf.nodes.size();
    sum.gpus += CountGpus(cluster, leaf);
    sum.fewest = std::min(sum.fewest, leaf.nodes.size());
    sum.most = std::max(sum.most, leaf.nodes.size());
    sum.groups.insert(leaf.group);
  }
  return sum;
}

size_t CountGroupNodes(const ClusterSpec& cluster, const std::string& group) {
  size_t nodes = 0;
  for (const ZoneSpec& zone : cluster.zones) {
    for (const LeafSpec& leaf : zone.leaves) {
      nodes += leaf.group == group ? leaf.nodes.size() : 0;
    }
  }
  return nodes;
}

// Returns null for limits that the file leaves out.
json BoundariesJson(const FabricSpec& fabric) {
  const auto limit = [](uint32_t most) { return most == kNoLimit ? json() : json(most); };
  json boundaries = json::array();
  for (const Boundary& boundary : fabric.boundaries) {
    boundaries.push_back({{"zones", {boundary.first, boundary.second}},
                          {"jobs_max", limit(boundary.jobs_max)},
                          {"pairs_max", limit(boundary.pairs_max)}});
  }
  return boundaries;
}

json ToJson(const ClusterSpec& cluster) {
  json groups = json::array();
  for (const GroupSpec& group : cluster.groups) {
    groups.push_back({{"name", group.name},
                      {"nodes", CountGroupNodes(cluster, group.name)},
                      {"gpus_per_node", group.gpus_per_node},
                      {"gpu_model", group.gpu_model},
                      {"cpus", group.cpus},
                      {"memory_bytes", group.memory_bytes},
                      {"disk_bytes", group.disk_bytes}});
  }
  json zones = json::array();
  for (const ZoneSpec& zone : cluster.zones) {
    const ZoneSummary sum = Summarise(cluster, zone);
    zones.push_back({{"name", zone.name},
                     {"leaves", zone.leaves.size()},
                     {"nodes", sum.nodes},
                     {"gpus", sum.gpus},
                     {"nodes_per_leaf_min", sum.fewest},
                     {"nodes_per_leaf_max", sum.most},
                     {"groups", sum.groups}});
  }
  return {{"name", cluster.name},
          {"nodes", CountNodes(cluster)},
          {"groups", std::move(groups)},
          {"zones", std::move(zones)},
          {"fabric",
           {{"cross_zone_jobs_max", cluster.fabric.cross_zone_jobs_max},
            {"cross_zone_links", cluster.fabric.cross_zone_links},
            {"boundaries", BoundariesJson(cluster.fabric)}}}};
}

std::string Join(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : ",") + word;
  }
  return out;
}

// "15-16", or "16" where all are alike.
std::string Range(size_t low, size_t high) {
  return std::to_string(low) + (low == high ? "" : "-" + std::to_string(high));
}

Table ZoneTable(const ClusterSpec& cluster) {
  Table table({{.title = "ZONE"},
               {.title = "LEAVES", .right = true},
               {.title = "NODES", .right = true},
               {.title = "PER LEAF", .right = true},
               {.title = "GPUS", .right = true},
               {.title = "GROUPS"}});
  for (const ZoneSpec& zone : cluster.zones) {
    const ZoneSummary sum = Summarise(cluster, zone);
    table.Add({{zone.name},
               {std::to_string(zone.leaves.size())},
               {std::to_string(sum.nodes)},
               {Range(sum.fewest, sum.most)},
               {std::to_string(sum.gpus)},
               {Join(sum.groups)}});
  }
  return table;
}

Table GroupTable(const ClusterSpec& cluster) {
  const auto known = [](uint64_t number) { return number == 0 ? "" : std::to_string(number); };
  Table table({{.title = "GROUP"},
               {.title = "NODES", .right = true},
               {.title = "GPUS/NODE", .right = true},
               {.title = "MODEL", .hide_empty = true},
               {.title = "CPUS", .right = true, .hide_empty = true},
               {.title = "MEMORY GIB", .right = true, .hide_empty = true}});
  for (const GroupSpec& group : cluster.groups) {
    table.Add({{group.name},
               {std::to_string(CountGroupNodes(cluster, group.name))},
               {std::to_string(group.gpus_per_node)},
               {group.gpu_model},
               {known(group.cpus)},
               {known(group.memory_bytes >> 30U)}});
  }
  return table;
}

Table BoundaryTable(const FabricSpec& fabric) {
  const auto limit = [](uint32_t most) { return most == kNoLimit ? "" : std::to_string(most); };
  Table table({{.title = "BOUNDARY"},
               {.title = "JOBS", .right = true, .hide_empty = true},
               {.title = "PAIRS", .right = true, .hide_empty = true}});
  for (const Boundary& boundary : fabric.boundaries) {
    table.Add({{boundary.first + " – " + boundary.second},
               {limit(boundary.jobs_max)},
               {limit(boundary.pairs_max)}});
  }
  return table;
}

std::string Names(const ClusterSpec& cluster) {
  std::string out;
  for (const ZoneSpec& zone : cluster.zones) {
    for (const LeafSpec& leaf : zone.leaves) {
      for (const std::string& node : leaf.nodes) {
        out += node + "\n";
      }
    }
  }
  return out;
}

void PrintTables(const Context& context, const ClusterSpec& cluster) {
  const FabricSpec& fabric = cluster.fabric;
  const std::string links =
      fabric.cross_zone_links == 0
          ? ""
          : ", " + std::to_string(fabric.cross_zone_links) + " links from each zone to the others";
  context.Print(cluster.name + ": " + std::to_string(CountNodes(cluster)) +
                " nodes; cross-zone jobs at a time: " + std::to_string(fabric.cross_zone_jobs_max) +
                links + "\n\n");
  const Style style = context.OutStyle();
  context.Print(ZoneTable(cluster).Render(style) + "\n" + GroupTable(cluster).Render(style));
  if (!fabric.boundaries.empty()) {
    context.Print("\n" + BoundaryTable(fabric).Render(style));
  }
}

int Check(const Context& context, const std::string& file) {
  const auto text = ReadFile(file, kFileMax);
  if (!text) {
    const bool missing = text.error().code == ErrorCode::kNotFound;
    return context.Report({missing ? kExitNotFound : kExitUsage, text.error().message, {}, false});
  }
  ParsedCluster parsed = ParseClusterFile(*text);
  if (!parsed.findings.empty()) {
    return context.Report({kExitUsage, "", std::move(parsed.findings), false}, file);
  }
  if (context.format() == Format::kName) {
    context.Print(Names(parsed.cluster));
  } else if (context.format() == Format::kTable) {
    PrintTables(context, parsed.cluster);
  } else {
    context.PrintJson(ToJson(parsed.cluster));
  }
  return kExitOk;
}

}  // namespace

void AddAdminVerb(CLI::App& app, Context& context) {
  CLI::App* admin = app.add_subcommand("admin", "For those who run the cluster");
  admin->require_subcommand(1);
  CLI::App* topology = admin->add_subcommand("topology", "The cluster file");
  topology->require_subcommand(1);
  AddAuditVerb(*admin, context);
  AddCaVerbs(*admin, context);
  AddStoreVerbs(*admin, context);
  CLI::App* check = topology->add_subcommand("check", "Read a cluster file; say what it describes");
  const auto file = std::make_shared<std::string>();
  check->add_option("file", *file, "Cluster file (YAML or JSON)")->required();
  check->callback([file, &context] { context.exit_code = Check(context, *file); });
}

}  // namespace tide::cli
