#include "proto/wire/convert.h"

#include <algorithm>

namespace tide::wire {
namespace {

// Larger numbers than this are no durations but mistakes; they stay numbers.
constexpr uint64_t kMillisMax = 1000ULL * 3600 * 24 * 366 * 100;

Duration FromMillis(uint64_t millis) {
  return Duration::Millis(static_cast<int64_t>(std::min(millis, kMillisMax)));
}

static_assert(static_cast<int>(AfterOutcome::kSuccess) == tide::v1::AFTER_OUTCOME_SUCCESS);
static_assert(static_cast<int>(AfterOutcome::kAny) == tide::v1::AFTER_OUTCOME_ANY);

// What this version does not know stays out of range: CheckJobSpec refuses it.
AfterOutcome OutcomeFromProto(tide::v1::AfterOutcome on) {
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): out of range is what it is.
  constexpr auto kUnknown = static_cast<AfterOutcome>(UINT8_MAX);
  return tide::v1::AfterOutcome_IsValid(on) ? static_cast<AfterOutcome>(on) : kUnknown;
}

static_assert(static_cast<int>(OnNan::kNote) == tide::v1::ON_NAN_NOTE);
static_assert(static_cast<int>(OnNan::kRollback) == tide::v1::ON_NAN_ROLLBACK);

// Leaves a value out of range that this version does not know: CheckJobSpec refuses it.
OnNan OnNanFromProto(tide::v1::OnNan on_nan) {
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): out of range is what it is.
  constexpr auto kUnknown = static_cast<OnNan>(UINT8_MAX);
  return tide::v1::OnNan_IsValid(on_nan) ? static_cast<OnNan>(on_nan) : kUnknown;
}

}  // namespace

tide::v1::JobSpec ToProto(const JobSpec& spec) {
  tide::v1::JobSpec out;
  out.set_name(spec.name);
  out.set_project(spec.project);
  out.set_image(spec.image);
  out.set_workdir(spec.workdir);
  out.mutable_command()->Assign(spec.command.begin(), spec.command.end());
  out.set_group(spec.group);
  out.set_nodes(spec.nodes);
  out.set_gpus_per_node(spec.gpus_per_node);
  out.set_ranks_per_node(spec.ranks_per_node);
  out.set_cpus_per_node(spec.cpus_per_node);
  out.set_memory_bytes_per_node(spec.memory_bytes_per_node);
  out.set_disk_bytes_per_node(spec.disk_bytes_per_node);
  out.set_gpu_model(spec.gpu_model);
  out.set_zone(spec.zone);
  out.set_priority(spec.priority);
  out.set_suspend_notice_ms(static_cast<uint64_t>(spec.suspend_notice.millis()));
  out.set_suspend_signal(spec.suspend_signal);
  out.set_suspend_exit_ok_done(spec.suspend_exit_ok_done);
  out.set_on_nan(static_cast<tide::v1::OnNan>(spec.on_nan));
  out.set_checkpoint_dir(spec.checkpoint_dir);
  out.set_checkpoint_every_ms(static_cast<uint64_t>(spec.checkpoint_every.millis()));
  out.set_retry_failure_max(spec.retry_failure_max);
  out.set_retry_hardware_max(spec.retry_hardware_max);
  out.set_retry_backoff_ms(static_cast<uint64_t>(spec.retry_backoff.millis()));
  out.set_max_runtime_ms(static_cast<uint64_t>(spec.max_runtime.millis()));
  out.set_start_timeout_ms(static_cast<uint64_t>(spec.start_timeout.millis()));
  out.mutable_env()->insert(spec.env.begin(), spec.env.end());
  out.mutable_labels()->insert(spec.labels.begin(), spec.labels.end());
  for (const MountSpec& mount : spec.mounts) {
    tide::v1::Mount* added = out.add_mounts();
    added->set_source(mount.source);
    added->set_target(mount.target);
    added->set_read_only(mount.read_only);
  }
  for (const Dependency& dependency : spec.after) {
    tide::v1::Dependency* added = out.add_after();
    added->set_job(dependency.job.value());
    added->set_on(static_cast<tide::v1::AfterOutcome>(dependency.on));
    added->set_array(dependency.array);
  }
  out.set_count(spec.count);
  out.mutable_secrets()->Assign(spec.secrets.begin(), spec.secrets.end());
  return out;
}

JobSpec FromProto(const tide::v1::JobSpec& message) {
  JobSpec out;
  out.name = message.name();
  out.project = message.project();
  out.image = message.image();
  out.workdir = message.workdir();
  out.command.assign(message.command().begin(), message.command().end());
  out.group = message.group();
  out.nodes = message.nodes();
  out.gpus_per_node = message.gpus_per_node();
  out.ranks_per_node = message.ranks_per_node();
  out.cpus_per_node = message.cpus_per_node();
  out.memory_bytes_per_node = message.memory_bytes_per_node();
  out.disk_bytes_per_node = message.disk_bytes_per_node();
  out.gpu_model = message.gpu_model();
  out.zone = message.zone();
  out.priority = message.priority();
  out.suspend_notice = FromMillis(message.suspend_notice_ms());
  out.suspend_signal = message.suspend_signal();
  out.suspend_exit_ok_done = message.suspend_exit_ok_done();
  out.on_nan = OnNanFromProto(message.on_nan());
  out.checkpoint_dir = message.checkpoint_dir();
  out.checkpoint_every = FromMillis(message.checkpoint_every_ms());
  out.retry_failure_max = message.retry_failure_max();
  out.retry_hardware_max = message.retry_hardware_max();
  out.retry_backoff = FromMillis(message.retry_backoff_ms());
  out.max_runtime = FromMillis(message.max_runtime_ms());
  out.start_timeout = FromMillis(message.start_timeout_ms());
  out.env.insert(message.env().begin(), message.env().end());
  out.labels.insert(message.labels().begin(), message.labels().end());
  for (const tide::v1::Mount& mount : message.mounts()) {
    out.mounts.push_back({mount.source(), mount.target(), mount.read_only()});
  }
  for (const tide::v1::Dependency& dependency : message.after()) {
    out.after.push_back(
        {JobId(dependency.job()), OutcomeFromProto(dependency.on()), dependency.array()});
  }
  out.count = std::max(1U, message.count());
  out.secrets.assign(message.secrets().begin(), message.secrets().end());
  return out;
}

}  // namespace tide::wire
