#include "api/http/elements.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "api/http/routes.h"
#include "api/view/json.h"

namespace tide::api {

std::expected<Elements, Problem> FindElements(const App& app, const View& view, const Call& call) {
  const auto ref = ParseArrayRef(call.Path("ref"));
  if (!ref) {
    return std::unexpected(ToProblem(ref.error()));
  }
  const auto found = view.jobs.find(ref->job);
  if (found == view.jobs.end() || found->second->message.array() != ref->job) {
    return std::unexpected(NotFound(app,
                                    "no array begins with " + FormatJobName(ref->job) +
                                        "; `tide ps --all` lists what there is"));
  }
  if (const auto allowed = CheckJob(app, call, found->second->message); !allowed) {
    return std::unexpected(allowed.error());
  }
  const uint32_t count = found->second->message.spec().count();
  if (ref->first >= count || (!ref->all() && ref->last >= count)) {
    return Refuse(ErrorCode::kNotFound,
                  FormatJobName(ref->job) + "[] has " + std::to_string(count) + " elements, 0 to " +
                      std::to_string(count - 1));
  }
  return Elements{*ref, found->second, std::min(ref->last, count - 1)};
}

std::shared_ptr<const JobRow> FirstWaiting(const View& view, const Elements& elements) {
  auto it = view.jobs.find(elements.first_job());
  for (uint32_t i = 0; i < elements.count() && it != view.jobs.end(); ++i, ++it) {
    const v1::JobState state = it->second->message.state();
    if (state == v1::JOB_STATE_QUEUED || state == v1::JOB_STATE_HELD) {
      return it->second;
    }
  }
  return elements.array;
}

namespace {

JobTally::Counts CountElements(const View& view, const Elements& elements) {
  JobTally::Counts counts{};
  if (!elements.ref.all()) {
    auto it = view.jobs.find(elements.first_job());
    for (uint32_t i = 0; i < elements.count() && it != view.jobs.end(); ++i, ++it) {
      ++counts.at(JobWordOf(it->second->message));
    }
    return counts;
  }
  const auto& chunks = view.jobs.chunks();
  const uint64_t last = JobRows::ChunkOf(elements.first_job() + elements.count() - 1);
  for (auto it = chunks.lower_bound(JobRows::ChunkOf(elements.first_job()));
       it != chunks.end() && it->first <= last;
       ++it) {
    const auto& by_array = it->second->tally.by_array();
    if (const auto some = by_array.find(elements.ref.job); some != by_array.end()) {
      std::ranges::transform(counts, some->second, counts.begin(), std::plus());
    }
  }
  return counts;
}

}  // namespace

std::string ElementsJson(const View& view, const Elements& elements) {
  std::map<std::string, uint32_t> states;
  const JobTally::Counts counts = CountElements(view, elements);
  for (size_t word = 0; word < counts.size(); ++word) {
    if (counts.at(word) > 0) {
      states[JobWordText(word)] = counts.at(word);
    }
  }
  const v1::Job& array = elements.array->message;
  return nlohmann::json{{"id", FormatArrayRef(elements.ref)},
                        {"array", FormatJobName(elements.ref.job)},
                        {"first", elements.ref.first},
                        {"last", elements.last},
                        {"count", array.spec().count()},
                        {"name", array.spec().name()},
                        {"user", array.user()},
                        {"states", states}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tide::api
