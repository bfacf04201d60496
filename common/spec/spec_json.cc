// FormatJobSpecJson: the keys of the YAML text, every one of them present.

#include <nlohmann/json.hpp>

#include "common/spec/dependency_text.h"
#include "common/spec/signal_names.h"
#include "common/spec/span_text.h"
#include "common/spec/spec_text.h"

namespace tide {
namespace {

using Json = nlohmann::ordered_json;

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// 0 stands for "no limit".
Json LimitOrNull(uint32_t limit) {
  return limit == 0 ? Json(nullptr) : Json(limit);
}

Json Gibibytes(uint64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  if (bytes % kGibibyte == 0) {
    return bytes / kGibibyte;
  }
  return static_cast<double>(bytes) / static_cast<double>(kGibibyte);
}

Json Resources(const JobSpec& spec) {
  return {{"group", spec.group},
          {"nodes", spec.nodes},
          {"gpus_per_node", spec.gpus_per_node},
          {"ranks_per_node", spec.ranks_per_node},
          {"cpus_per_node", LimitOrNull(spec.cpus_per_node)},
          {"memory_gib", Gibibytes(spec.memory_bytes_per_node)},
          {"disk_gib", Gibibytes(spec.disk_bytes_per_node)},
          {"gpu_model", spec.gpu_model.empty() ? Json() : Json(spec.gpu_model)}};
}

Json Mounts(const std::vector<MountSpec>& mounts) {
  Json list = Json::array();
  for (const MountSpec& mount : mounts) {
    list.push_back(
        {{"source", mount.source}, {"target", mount.target}, {"read_only", mount.read_only}});
  }
  return list;
}

Json After(const std::vector<Dependency>& after) {
  Json list = Json::array();
  for (const Dependency& each : after) {
    list.push_back({{"job", FormatAwaited(each)}, {"on", AfterOutcomeName(each.on)}});
  }
  return list;
}

}  // namespace

std::string FormatJobSpecJson(const JobSpec& spec) {
  const bool saves = spec.checkpoint_every.nanos() > 0;
  const bool limited = spec.max_runtime.nanos() > 0;
  const bool own_timeout = spec.start_timeout.nanos() > 0;
  Json document = {
      {"version", 1},
      {"name", spec.name},
      {"project", spec.project},
      {"image", spec.image},
      {"workdir", TextOrNull(spec.workdir)},
      {"command", spec.command},
      {"resources", Resources(spec)},
      {"placement", Json::object({{"zone", spec.zone}})},
      {"priority", PriorityName(spec.priority)},
      {"suspend",
       {{"notice", FormatSpan(spec.suspend_notice)},
        {"signal", SignalName(spec.suspend_signal)},
        {"exit_ok", ExitOkName(spec.suspend_exit_ok_done)}}},
      {"checkpoint",
       {{"dir", TextOrNull(spec.checkpoint_dir)},
        {"every", saves ? Json(FormatSpan(spec.checkpoint_every)) : Json(nullptr)}}},
      {"retry",
       {{"failure", spec.retry_failure_max},
        {"hardware", spec.retry_hardware_max},
        {"backoff", FormatSpan(spec.retry_backoff)}}},
      {"health", {{"on_nan", OnNanName(spec.on_nan)}}},
      {"max_runtime", limited ? Json(FormatSpan(spec.max_runtime)) : Json(nullptr)},
      {"start_timeout", own_timeout ? Json(FormatSpan(spec.start_timeout)) : Json(nullptr)},
      {"env", Json(spec.env)},
      {"labels", Json(spec.labels)},
      {"mounts", Mounts(spec.mounts)},
      {"after", After(spec.after)},
      {"count", spec.count},
      {"secrets", spec.secrets},
  };
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tide
