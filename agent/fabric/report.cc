#include "agent/fabric/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tide::allreduce {
namespace {

using Json = nlohmann::ordered_json;

// 10^9 bytes/s while something was being sent.
double EdgeGbps(const LinkUse& use) {
  return use.nanos > 0 ? static_cast<double>(use.bytes) / static_cast<double>(use.nanos) : 0;
}

Json WorkJson(const Work& work) {
  return {{"node", work.node},
          {"nodes", work.nodes},
          {"ranks", work.ranks},
          {"bytes", work.elements * sizeof(float)}};
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json EdgeJson(const EdgeReport& report) {
  return {{"from", report.edge.self},
          {"to", report.edge.peer},
          {"tree", report.edge.tree},
          {"up", report.edge.to_parent},
          {"crosses_zones", report.crosses_zones},
          {"bytes", report.sent.bytes},
          {"gbps", EdgeGbps(report.sent)}};
}

Json ErrorJson(const RankError& error) {
  return {{"iteration", error.iteration},
          {"rank", error.rank},
          {"count", error.wrong.count},
          {"index", error.wrong.index},
          {"expected", error.wrong.expected},
          {"found", error.wrong.found}};
}

}  // namespace

Rates RatesOf(const NodeReport& report, const Work& work) {
  std::vector<int64_t> nanos = report.nanos;
  if (nanos.empty()) {
    return {};
  }
  std::ranges::sort(nanos);
  const size_t half = nanos.size() / 2;
  const int64_t median = nanos.size() % 2 == 1 ? nanos[half] : (nanos[half - 1] + nanos[half]) / 2;
  const double ranks = static_cast<double>(work.nodes) * work.ranks;
  const double bytes = static_cast<double>(work.elements) * sizeof(float);
  const double algorithm = median > 0 ? bytes / static_cast<double>(median) : 0;
  return {static_cast<double>(median) / 1e9,
          static_cast<double>(nanos.front()) / 1e9,
          algorithm,
          algorithm * 2 * (ranks - 1) / ranks};
}

std::string ReportJson(const NodeReport& report, const Work& work) {
  const Rates rates = RatesOf(report, work);
  Json json = WorkJson(work);
  json["iterations"] = report.nanos.size();
  json["median_s"] = rates.median_s;
  json["min_s"] = rates.min_s;
  json["algorithm_gbps"] = rates.algorithm_gbps;
  json["bus_gbps"] = rates.bus_gbps;
  json["edges"] = Json::array();
  for (const EdgeReport& edge : report.edges) {
    json["edges"].push_back(EdgeJson(edge));
  }
  json["cross_zone_pairs"] = report.cross_zone_pairs;
  json["plan_cross_zone_pairs"] = report.plan_cross_zone_pairs;
  json["checked"] = work.check;
  json["wrong_elements"] = report.wrong_elements;
  json["errors"] = Json::array();
  for (const RankError& error : report.errors) {
    json["errors"].push_back(ErrorJson(error));
  }
  return Dump(json);
}

std::string ErrorJson(const Error& error, const Work& work) {
  Json json = WorkJson(work);
  json["error"] = ErrorCodeName(error.code);
  json["message"] = error.message;
  return Dump(json);
}

std::string ReportText(const NodeReport& report, const Work& work) {
  const Rates rates = RatesOf(report, work);
  std::string text = fmt::format(
      "node {} of {}, {} ranks: median {:.4f} s, min {:.4f} s, algorithm {:.3f} GB/s, bus {:.3f} "
      "GB/s, {} wrong elements\n",
      work.node,
      work.nodes,
      work.ranks,
      rates.median_s,
      rates.min_s,
      rates.algorithm_gbps,
      rates.bus_gbps,
      report.wrong_elements);
  for (const EdgeReport& edge : report.edges) {
    text += fmt::format("  {} (tree {}): {:.3f} GB/s{}\n",
                        EdgeName(edge.edge.self, edge.edge.peer),
                        edge.edge.tree,
                        EdgeGbps(edge.sent),
                        edge.crosses_zones ? ", between zones" : "");
  }
  for (const RankError& error : report.errors) {
    text += fmt::format("  iteration {}, rank {}: {} wrong, first [{}] is {} instead of {}\n",
                        error.iteration,
                        error.rank,
                        error.wrong.count,
                        error.wrong.index,
                        error.wrong.found,
                        error.wrong.expected);
  }
  text.pop_back();
  return text;
}

}  // namespace tide::allreduce
