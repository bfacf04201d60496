// ParseClusterFile: which keys a cluster file has and what each means.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/file.h"
#include "common/cluster/cluster_text.h"
#include "common/cluster/name_pattern.h"
#include "common/cluster/node_set.h"
#include "common/spec/field_reader.h"
#include "common/spec/suggest.h"
#include "common/spec/yaml_tree.h"
#include "common/spec/zone_rule.h"

namespace tide {
namespace {

constexpr yaml::DocumentKind kKind{"cluster file", 8};
constexpr FieldReader::Bounds kLeaves{1, kClusterNodesMax};
constexpr FieldReader::Bounds kFirst{0, 1'000'000};
constexpr FieldReader::Bounds kNodesPerLeaf{1, 10'000};
constexpr FieldReader::Bounds kGpus{0, 1024};
constexpr FieldReader::Bounds kCpus{0, 1'048'576};
constexpr FieldReader::Bounds kJobs{0, 10'000};
constexpr FieldReader::Bounds kLinks{0, 10'000'000};
constexpr FieldReader::Bounds kCrossings{1, 1'000'000};
constexpr size_t kJoinedMax = 64;  // zones of one entry of `boundaries`

// A text of the file with its place.
struct Word {
  std::string text;
  Value value;
};

// Leaves by number: `{ count, first, nodes_per_leaf, group, leaf, node }`.
struct LeafPattern {
  uint32_t count = 0;
  uint32_t first = 1;
  uint32_t nodes_per_leaf = 0;
  Word group;
  Word leaf;
  Word node;
};

class ClusterReader {
 public:
  ParsedCluster Read(const yaml::TreeNode& root) {
    const Value top{&root, ""};
    reader_.Map(top,
                {{"version", [this](const Value& value) { ReadVersion(value); }},
                 {"name", [this](const Value& value) { ReadName(value); }},
                 {"groups", [this](const Value& value) { ReadGroups(value); }},
                 {"zones", [this](const Value& value) { ReadZones(value); }},
                 {"fabric", [this](const Value& value) { ReadFabric(value); }}});
    reader_.Require(top, {"version", "name", "groups", "zones"});
    CheckGroupsUsed();
    CheckBoundaries();
    std::sort(cluster_.groups.begin(),
              cluster_.groups.end(),
              [](const GroupSpec& a, const GroupSpec& b) { return a.name < b.name; });
    return {std::move(cluster_), reader_.Take()};
  }

 private:
  // What a name may stand for once in a file, and the line of the first.
  using Names = std::map<std::string, int>;

  FieldReader::Field WholeField(std::string_view key, FieldReader::Bounds bounds, uint32_t& out) {
    return {key, [this, bounds, &out](const Value& v) { reader_.Whole(v, bounds, out); }};
  }
  FieldReader::Field WordField(std::string_view key, Word& out) {
    return {key, [this, &out](const Value& value) {
              out.value = value;
              reader_.Text(value, out.text);
            }};
  }

  // False, with a finding, for what is no text.
  bool ReadText(const Value& value, std::string& out) {
    reader_.Text(value, out);
    return value.node->kind == yaml::Kind::kScalar;
  }

  void ReadVersion(const Value& value) {
    if (value.node->kind != yaml::Kind::kScalar || value.node->text != "1") {
      reader_.Add(value, "version must be 1: this Tide reads no other");
    }
  }

  void ReadName(const Value& value) {
    if (ReadText(value, cluster_.name)) {
      CheckName(value, "a cluster's name", cluster_.name);
    }
  }

  // False, with a finding, for a name of other letters.
  bool CheckName(const Value& value, const std::string& what, const std::string& name) {
    if (!IsPlainName(name)) {
      reader_.Add(value,
                  what +
                      " must be 1 to 63 letters, digits, '.', '_' or '-', the first a letter "
                      "or digit, not \"" +
                      name.substr(0, 80) + "\"");
      return false;
    }
    return true;
  }

  void ReadGroups(const Value& value) {
    reader_.Entries(value, [this](const Value& key, const Value& entry) {
      GroupSpec group;
      group.name = key.node->text;
      CheckName(key, "a group's name", group.name);
      reader_.Map(
          entry,
          {WholeField("gpus_per_node", kGpus, group.gpus_per_node),
           {"gpu_model", [&](const Value& v) { reader_.Text(v, group.gpu_model); }},
           WholeField("cpus", kCpus, group.cpus),
           {"memory_gib", [&](const Value& v) { reader_.Gibibytes(v, group.memory_bytes); }},
           {"disk_gib", [&](const Value& v) { reader_.Gibibytes(v, group.disk_bytes); }}});
      reader_.Require(entry, {"gpus_per_node"});
      cluster_.groups.push_back(std::move(group));
    });
    if (value.node->kind == yaml::Kind::kMap && value.node->entries.empty()) {
      reader_.Add(value, "groups is empty; describe at least one kind of node");
    }
  }

  void ReadZones(const Value& value) {
    reader_.List(value, [this](const Value& item) { ReadZone(item); });
    if (value.node->kind == yaml::Kind::kSequence && value.node->items.empty()) {
      reader_.Add(value, "zones is empty; a cluster has at least one zone");
    }
  }

  void ReadZone(const Value& value) {
    ZoneSpec zone;
    reader_.Map(value,
                {{"name",
                  [&](const Value& name) {
                    if (ReadText(name, zone.name)) {
                      ClaimZone(name, zone.name);
                    }
                  }},
                 {"leaves", [&](const Value& leaves) { ReadLeaves(leaves, zone); }}});
    reader_.Require(value, {"name", "leaves"});
    cluster_.zones.push_back(std::move(zone));
  }

  void ClaimZone(const Value& value, const std::string& name) {
    if (name == kSingleZone || name == kCrossOk) {
      reader_.Add(value, "\"" + name + "\" is a rule of jobs and cannot name a zone");
    } else if (CheckName(value, "a zone's name", name)) {
      Claim(zones_, "zone", name, value);
    }
  }

  // False, with a finding, for the second of a name.
  bool Claim(Names& names, const std::string& kind, const std::string& name, const Value& value) {
    const auto [first, fresh] = names.emplace(name, value.node->line);
    if (!fresh) {
      reader_.Add(
          value,
          kind + " " + name + " is there twice, first in line " + std::to_string(first->second));
    }
    return fresh;
  }

  void ReadLeaves(const Value& value, ZoneSpec& zone) {
    if (value.node->kind == yaml::Kind::kMap) {
      ReadLeafOrPattern(value, zone);
      return;
    }
    reader_.List(value, [&](const Value& item) { ReadLeafOrPattern(item, zone); });
    if (value.node->kind == yaml::Kind::kSequence && value.node->items.empty()) {
      reader_.Add(value, "leaves is empty; a zone has at least one leaf switch");
    }
  }

  void ReadLeafOrPattern(const Value& value, ZoneSpec& zone) {
    const auto& entries = value.node->entries;
    const bool pattern = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
      const std::string& key = entry.first->text;
      return key == "count" || key == "nodes_per_leaf" || key == "leaf";
    });
    if (pattern) {
      ReadPattern(value, zone);
    } else {
      ReadLeaf(value, zone);
    }
  }

  void ReadLeaf(const Value& value, ZoneSpec& zone) {
    const size_t mistakes = reader_.count();
    Word name;
    Word group;
    Value nodes;
    std::vector<std::string> words;
    reader_.Map(value,
                {WordField("name", name), WordField("group", group), {"nodes", [&](const Value& v) {
                                                                        nodes = v;
                                                                        ReadWords(v, words);
                                                                      }}});
    reader_.Require(value, {"name", "group", "nodes"});
    NoteGroup(group);
    if (reader_.count() > mistakes) {
      return;
    }
    auto names = ExpandNodes(words, kClusterNodesMax);
    if (!names) {
      reader_.Add(nodes, names.error().message);
    } else if (names->empty()) {
      reader_.Add(nodes, "leaf " + name.text + " has no nodes; leave it out");
    } else {
      AddLeaf({name.text, group.text, *std::move(names)}, name.value, nodes, zone);
    }
  }

  // One text, or a list of them.
  void ReadWords(const Value& value, std::vector<std::string>& words) {
    if (value.node->kind == yaml::Kind::kScalar) {
      words = {value.node->text};
    } else {
      reader_.TextList(value, words);
    }
  }

  void ReadPattern(const Value& value, ZoneSpec& zone) {
    const size_t mistakes = reader_.count();
    LeafPattern pattern;
    reader_.Map(value,
                {WholeField("count", kLeaves, pattern.count),
                 WholeField("first", kFirst, pattern.first),
                 WholeField("nodes_per_leaf", kNodesPerLeaf, pattern.nodes_per_leaf),
                 WordField("group", pattern.group),
                 WordField("leaf", pattern.leaf),
                 WordField("node", pattern.node)});
    reader_.Require(value, {"count", "nodes_per_leaf", "group", "leaf", "node"});
    NoteGroup(pattern.group);
    const auto leaf = ReadNamePattern(pattern.leaf, pattern.count > 1, false);
    const auto node = ReadNamePattern(pattern.node, pattern.count > 1, pattern.nodes_per_leaf > 1);
    if (reader_.count() > mistakes || !leaf || !node) {
      return;
    }
    if (uint64_t{pattern.count} * pattern.nodes_per_leaf > kClusterNodesMax - nodes_.size()) {
      SayTooLarge(value);
      return;
    }
    for (uint32_t i = pattern.first; i < pattern.first + pattern.count; ++i) {
      LeafSpec made{leaf->Name(i, 0), pattern.group.text, {}};
      for (uint32_t j = 1; j <= pattern.nodes_per_leaf; ++j) {
        made.nodes.push_back(node->Name(i, j));
      }
      if (!AddLeaf(std::move(made), pattern.leaf.value, pattern.node.value, zone)) {
        return;  // the next ones have the same mistake
      }
    }
  }

  // The pattern of a word; nothing, with a finding unless the word has one, for a bad pattern.
  std::optional<NamePattern> ReadNamePattern(const Word& word, bool many_leaves, bool many_nodes) {
    if (word.value.node == nullptr || word.value.node->kind != yaml::Kind::kScalar) {
      return std::nullopt;
    }
    const auto pattern = NamePattern::Parse(word.text);
    if (!pattern) {
      reader_.Add(word.value, "\"" + word.text.substr(0, 80) + "\": " + pattern.error().message);
      return std::nullopt;
    }
    const char* lacks = many_leaves && !pattern->Uses(NamePattern::Part::kLeaf)  ? "{leaf}"
                        : many_nodes && !pattern->Uses(NamePattern::Part::kNode) ? "{node}"
                                                                                 : nullptr;
    if (lacks != nullptr) {
      reader_.Add(word.value,
                  "\"" + word.text.substr(0, 80) + "\" gives the same name more than once; put " +
                      lacks + " into it");
      return std::nullopt;
    }
    return *pattern;
  }

  void SayTooLarge(const Value& value) {
    if (!too_large_) {
      reader_.Add(value,
                  "with these the cluster has more than " + std::to_string(kClusterNodesMax) +
                      " nodes, the most that Tide schedules");
    }
    too_large_ = true;
  }

  // False, with one finding, if a name of it is bad or taken.
  bool AddLeaf(LeafSpec leaf, const Value& name, const Value& nodes, ZoneSpec& zone) {
    if (leaf.nodes.size() > kClusterNodesMax - nodes_.size()) {
      SayTooLarge(nodes);
      return false;
    }
    if (!CheckName(name, "a leaf's name", leaf.name) || !Claim(leaves_, "leaf", leaf.name, name)) {
      return false;
    }
    for (const std::string& node : leaf.nodes) {
      if (!CheckName(nodes, "a node's name", node) || !Claim(nodes_, "node", node, nodes)) {
        return false;
      }
    }
    zone.leaves.push_back(std::move(leaf));
    return true;
  }

  void NoteGroup(const Word& group) {
    if (group.value.node != nullptr && group.value.node->kind == yaml::Kind::kScalar) {
      groups_used_.push_back(group);
    }
  }

  // At the end: `groups` may stand below `zones`.
  void CheckGroupsUsed() {
    std::vector<std::string_view> known;
    known.reserve(cluster_.groups.size());
    for (const GroupSpec& group : cluster_.groups) {
      known.push_back(group.name);
    }
    for (const Word& used : groups_used_) {
      if (FindGroup(cluster_, used.text) != nullptr) {
        continue;
      }
      const std::string near = NearestWord(used.text, known);
      reader_.Add(used.value,
                  "group \"" + used.text.substr(0, 80) + "\" is not described under `groups`",
                  near.empty() ? "" : "did you mean `" + near + "`?");
    }
  }

  void ReadFabric(const Value& value) {
    reader_.Map(value,
                {WholeField("cross_zone_jobs_max", kJobs, cluster_.fabric.cross_zone_jobs_max),
                 WholeField("cross_zone_links", kLinks, cluster_.fabric.cross_zone_links),
                 {"boundaries", [this](const Value& each) { ReadBoundaries(each); }}});
  }

  void ReadBoundaries(const Value& value) {
    reader_.List(value, [this](const Value& item) { ReadBoundary(item); });
    if (value.node->kind == yaml::Kind::kSequence && value.node->items.empty()) {
      reader_.Add(value,
                  "boundaries is empty; leave it out where any two zones are joined, or say "
                  "cross_zone_jobs_max: 0 where none are");
    }
  }

  // Joins each two of its zones.
  void ReadBoundary(const Value& value) {
    Boundary boundary;
    std::vector<Word> zones;
    reader_.Map(value,
                {{"zones",
                  [&](const Value& names) {
                    reader_.List(names, [&](const Value& name) {
                      reader_.Text(name, zones.emplace_back(Word{"", name}).text);
                    });
                  }},
                 WholeField("jobs_max", kCrossings, boundary.jobs_max),
                 WholeField("pairs_max", kCrossings, boundary.pairs_max)});
    if (zones.size() < 2 || zones.size() > kJoinedMax) {
      reader_.Add(
          value,
          "a boundary lies between two zones, or each two of some: zones: [A, B]; at most " +
              std::to_string(kJoinedMax));
      return;
    }
    for (size_t i = 0; i < zones.size(); ++i) {
      for (size_t j = i + 1; j < zones.size(); ++j) {
        boundary.first = zones[i].text;
        boundary.second = zones[j].text;
        cluster_.fabric.boundaries.push_back(boundary);
        boundary_places_.push_back({zones[i].value, zones[j].value});
      }
    }
  }

  // Runs at the end: `zones` may stand below `fabric`.
  void CheckBoundaries() {
    std::set<std::pair<std::string, std::string>> seen;
    std::set<const yaml::TreeNode*> unknown;
    for (size_t i = 0; i < boundary_places_.size(); ++i) {
      const Boundary& boundary = cluster_.fabric.boundaries[i];
      const auto& [first, second] = boundary_places_[i];
      for (const auto& [name, place] :
           {std::pair(boundary.first, first), {boundary.second, second}}) {
        if (!zones_.contains(name) && unknown.insert(place.node).second) {
          reader_.Add(place, "there is no zone \"" + name.substr(0, 80) + "\"");
        }
      }
      if (!seen.insert(std::minmax(boundary.first, boundary.second)).second) {
        reader_.Add(second,
                    boundary.first.substr(0, 80) + " and " + boundary.second.substr(0, 80) +
                        " have a boundary already");
      } else if (boundary.first == boundary.second) {
        reader_.Add(second, "a zone has no boundary with itself");
      }
    }
  }

  ClusterSpec cluster_;
  FieldReader reader_{"the cluster file"};
  std::vector<Word> groups_used_;
  std::vector<std::pair<Value, Value>> boundary_places_;  // places of their zones, by boundary
  Names zones_;
  Names leaves_;
  Names nodes_;
  bool too_large_ = false;
};

}  // namespace

ParsedCluster ParseClusterFile(std::string_view text) {
  yaml::Document document = yaml::Parse(text, kKind);
  if (document.root == nullptr) {
    return {{}, std::move(document.findings)};
  }
  return ClusterReader().Read(*document.root);
}

Result<ClusterSpec> LoadClusterFile(const std::string& path) {
  TIDE_ASSIGN(const std::string text, ReadFile(path, (kKind.mebibytes_max << 20U) + 1));
  ParsedCluster parsed = ParseClusterFile(text);
  if (!parsed.findings.empty()) {
    return std::unexpected(MistakesIn("cluster file", parsed.findings, path));
  }
  return std::move(parsed.cluster);
}

}  // namespace tide
