#include "api/http/node_choice.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "common/cluster/node_set.h"

namespace tide::api {
namespace {

constexpr size_t kAskedAtOnce = 32;

Problem NoSuch(const App& app, const std::string& what) {
  return NotFound(app, "there is no " + what + "; `tide nodes` lists what there is");
}

ChosenNode Chosen(const v1::Node& node) {
  ChosenNode chosen{{node.name(), node.endpoint()}, ""};
  if (node.state() == v1::NODE_STATE_LOST) {
    chosen.unreachable = "it is lost: " + node.reason();
  } else if (node.endpoint().empty()) {
    chosen.unreachable = "its agent has not said where it listens";
  }
  return chosen;
}

}  // namespace

std::expected<std::vector<ChosenNode>, Problem> ChooseNodes(const App& app,
                                                            const NodeChoice& choice) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto names = ExpandNodes(choice.nodes);
  if (!names) {
    return std::unexpected(ToProblem(names.error()));
  }
  const auto& rows = (*view)->nodes;
  const std::set<std::string> wanted(names->begin(), names->end());
  for (const std::string& name : wanted) {
    if (!rows.contains(name)) {
      return std::unexpected(NoSuch(app, "node " + name));
    }
  }
  bool zone_is_there = choice.zone.empty();
  bool group_is_there = choice.group.empty();
  std::vector<ChosenNode> chosen;
  for (const auto& [name, row] : rows) {
    const v1::Node& node = row->message;
    const bool zone_fits = choice.zone.empty() || choice.zone == node.zone();
    const bool group_fits = choice.group.empty() || choice.group == node.group();
    zone_is_there = zone_is_there || zone_fits;
    group_is_there = group_is_there || group_fits;
    if (zone_fits && group_fits && (wanted.empty() || wanted.contains(name))) {
      chosen.push_back(Chosen(node));
    }
  }
  if (!zone_is_there || !group_is_there) {
    return std::unexpected(
        NoSuch(app, zone_is_there ? "group " + choice.group : "zone " + choice.zone));
  }
  if (chosen.empty()) {
    return std::unexpected(NotFound(app, "no node is all of what was asked for"));
  }
  return chosen;
}

std::vector<std::string> SplitNodeSets(std::string_view text) {
  std::vector<std::string> sets;
  bool in_brackets = false;
  bool begins = true;
  for (const char c : text) {
    in_brackets = c == '[' || (in_brackets && c != ']');
    if (c == ',' && !in_brackets) {
      begins = true;
      continue;
    }
    if (begins) {
      sets.emplace_back();
      begins = false;
    }
    sets.back() += c;
  }
  return sets;
}

void ForEachNode(size_t count, const std::function<void(size_t)>& each) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      each(i);
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, kAskedAtOnce); ++i) {
    threads.emplace_back(work);
  }
}

}  // namespace tide::api
