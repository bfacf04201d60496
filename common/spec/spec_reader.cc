// ParseJobSpec: which keys a spec has and what each means.

#include <algorithm>

#include "common/spec/dependency_text.h"
#include "common/spec/field_reader.h"
#include "common/spec/signal_names.h"
#include "common/spec/spec_text.h"
#include "common/spec/yaml_tree.h"

namespace tide {
namespace {

constexpr FieldReader::Bounds kNodes{1, 100'000};
constexpr FieldReader::Bounds kCount{1, kArrayCountMax};
constexpr FieldReader::Bounds kGpus{0, 1024};
constexpr FieldReader::Bounds kRanks{1, 1024};
constexpr FieldReader::Bounds kCpus{0, 1'048'576};
constexpr FieldReader::Bounds kRetries{0, 1'000'000};

// Keys of the sections, for people who write them at the top.
const FieldReader::Elsewhere& Sections() {
  static const FieldReader::Elsewhere kSections = {{"group", "resources"},
                                                   {"nodes", "resources"},
                                                   {"gpus_per_node", "resources"},
                                                   {"ranks_per_node", "resources"},
                                                   {"cpus_per_node", "resources"},
                                                   {"memory_gib", "resources"},
                                                   {"disk_gib", "resources"},
                                                   {"gpu_model", "resources"},
                                                   {"zone", "placement"},
                                                   {"notice", "suspend"},
                                                   {"signal", "suspend"},
                                                   {"exit_ok", "suspend"},
                                                   {"dir", "checkpoint"},
                                                   {"every", "checkpoint"},
                                                   {"failure", "retry"},
                                                   {"hardware", "retry"},
                                                   {"backoff", "retry"}};
  return kSections;
}

class SpecReader {
 public:
  ParsedSpec Read(const yaml::TreeNode& root) {
    reader_.Map({&root, ""}, TopFields(), Sections());
    if (root.kind != yaml::Kind::kMap) {
      return {{}, reader_.Take()};
    }
    if (!version_seen_) {
      reader_.Add({&root, "/version"}, "the key `version` is missing; write `version: 1`");
    }
    if (!ranks_seen_ && spec_.gpus_per_node > 0) {
      spec_.ranks_per_node = spec_.gpus_per_node;
    }
    reader_.Place(CheckJobSpec(spec_));
    return {std::move(spec_), reader_.Take()};
  }

 private:
  using Fields = std::vector<FieldReader::Field>;

  FieldReader::Field TextField(std::string_view key, std::string& out) {
    return {key, [this, &out](const Value& value) { reader_.Text(value, out); }};
  }
  FieldReader::Field WholeField(std::string_view key, FieldReader::Bounds bounds, uint32_t& out) {
    return {key, [this, bounds, &out](const Value& v) { reader_.Whole(v, bounds, out); }};
  }
  FieldReader::Field SpanField(std::string_view key, Duration& out) {
    return {key, [this, &out](const Value& value) { reader_.Span(value, out); }};
  }
  FieldReader::Field Section(std::string_view key, Fields fields) {
    return {key, [this, fields = std::move(fields)](const Value& v) { reader_.Map(v, fields); }};
  }

  Fields TopFields() {
    return {
        {"version", [this](const Value& value) { ReadVersion(value); }},
        TextField("name", spec_.name),
        TextField("project", spec_.project),
        TextField("image", spec_.image),
        TextField("workdir", spec_.workdir),
        {"command", [this](const Value& value) { ReadCommand(value); }},
        {"script", [this](const Value& value) { ReadScript(value); }},
        Section(
            "resources",
            {TextField("group", spec_.group),
             WholeField("nodes", kNodes, spec_.nodes),
             WholeField("gpus_per_node", kGpus, spec_.gpus_per_node),
             {"ranks_per_node", [this](const Value& value) { ReadRanks(value); }},
             WholeField("cpus_per_node", kCpus, spec_.cpus_per_node),
             {"memory_gib",
              [this](const Value& value) {
                reader_.Gibibytes(value, spec_.memory_bytes_per_node);
              }},
             {"disk_gib",
              [this](const Value& value) { reader_.Gibibytes(value, spec_.disk_bytes_per_node); }},
             TextField("gpu_model", spec_.gpu_model)}),
        Section("placement", {TextField("zone", spec_.zone)}),
        {"priority", [this](const Value& value) { ReadPriority(value); }},
        Section("suspend",
                {SpanField("notice", spec_.suspend_notice),
                 {"signal", [this](const Value& value) { ReadSignal(value); }},
                 {"exit_ok", [this](const Value& value) { ReadExitOk(value); }}}),
        Section(
            "checkpoint",
            {TextField("dir", spec_.checkpoint_dir), SpanField("every", spec_.checkpoint_every)}),
        Section("retry",
                {WholeField("failure", kRetries, spec_.retry_failure_max),
                 WholeField("hardware", kRetries, spec_.retry_hardware_max),
                 SpanField("backoff", spec_.retry_backoff)}),
        Section("health", {{"on_nan", [this](const Value& value) { ReadOnNan(value); }}}),
        SpanField("max_runtime", spec_.max_runtime),
        SpanField("start_timeout", spec_.start_timeout),
        {"env", [this](const Value& value) { reader_.TextMap(value, spec_.env); }},
        {"labels", [this](const Value& value) { reader_.TextMap(value, spec_.labels); }},
        {"mounts", [this](const Value& value) { ReadMounts(value); }},
        WholeField("count", kCount, spec_.count),
        {"secrets", [this](const Value& value) { reader_.TextList(value, spec_.secrets); }},
        {"after", [this](const Value& value) { ReadAfter(value); }},
    };
  }

  void ReadVersion(const Value& value) {
    version_seen_ = true;
    if (value.node->kind != yaml::Kind::kScalar || value.node->text != "1") {
      reader_.Add(value, "version must be 1: this Tide reads no other");
    }
  }

  void ReadCommand(const Value& value) {
    if (!TakesCommand(value)) {
      return;
    }
    if (value.node->kind == yaml::Kind::kScalar) {
      reader_.Add(value,
                  "command must be a list of words, not one text",
                  "write `command: [python, train.py]`, or use `script:` for a shell script");
      return;
    }
    reader_.TextList(value, spec_.command);
  }

  void ReadScript(const Value& value) {
    if (!TakesCommand(value)) {
      return;
    }
    std::string script;
    reader_.Text(value, script);
    if (script.empty() && value.node->kind == yaml::Kind::kScalar) {
      reader_.Add(value, "script is empty");
    }
    spec_.command = {"/bin/bash", "-c", std::move(script)};
  }

  // False, with a finding, for the second of `command` and `script`.
  bool TakesCommand(const Value& value) {
    if (command_seen_) {
      reader_.Add(value, "a spec has either `command` or `script`, not both");
      return false;
    }
    command_seen_ = true;
    return true;
  }

  void ReadRanks(const Value& value) {
    ranks_seen_ = true;
    reader_.Whole(value, kRanks, spec_.ranks_per_node);
  }

  void ReadPriority(const Value& value) {
    if (!reader_.IsScalar(value, "the name of a class, such as normal")) {
      return;
    }
    const auto priority = ParsePriority(value.node->text);
    if (priority) {
      spec_.priority = *priority;
    } else {
      reader_.Add(value, priority.error().message);
    }
  }

  void ReadSignal(const Value& value) {
    if (!reader_.IsScalar(value, "a signal such as SIGUSR1")) {
      return;
    }
    const auto signal = ParseSignal(value.node->text);
    if (signal) {
      spec_.suspend_signal = *signal;
    } else {
      reader_.Add(value, "suspend.signal: " + signal.error().message);
    }
  }

  void ReadExitOk(const Value& value) {
    if (!reader_.IsScalar(value, "left or done")) {
      return;
    }
    const std::string& name = value.node->text;
    spec_.suspend_exit_ok_done = name == ExitOkName(true);
    if (!spec_.suspend_exit_ok_done && name != ExitOkName(false)) {
      reader_.Add(value,
                  "suspend.exit_ok must be left (a program that exits 0 after its signal comes "
                  "back) or done (its work is over), not " +
                      name);
    }
  }

  void ReadOnNan(const Value& value) {
    if (!reader_.IsScalar(value, "note, stop or rollback")) {
      return;
    }
    if (const auto on_nan = ParseOnNan(value.node->text)) {
      spec_.on_nan = *on_nan;
    } else {
      reader_.Add(value, "health.on_nan: " + on_nan.error().message);
    }
  }

  void ReadMounts(const Value& value) {
    reader_.List(value, [this](const Value& item) {
      MountSpec& mount = spec_.mounts.emplace_back();
      reader_.Map(item,
                  {TextField("source", mount.source),
                   TextField("target", mount.target),
                   {"read_only", [&](const Value& flag) { reader_.Flag(flag, mount.read_only); }}});
    });
  }

  // Each item is `j-12` or `{job: j-12, on: any}`.
  void ReadAfter(const Value& value) {
    reader_.List(value, [this](const Value& item) {
      Dependency dependency;
      const size_t before = reader_.count();
      if (item.node->kind == yaml::Kind::kMap) {
        reader_.Map(item,
                    {{"job", [&](const Value& job) { ReadAwaited(job, dependency); }},
                     {"on", [&](const Value& on) { ReadAfterOutcome(on, dependency.on); }}});
        reader_.Require(item, {"job"});
      } else {
        ReadAwaited(item, dependency);
      }
      if (reader_.count() == before) {
        spec_.after.push_back(dependency);
      }
    });
  }

  void ReadAwaited(const Value& value, Dependency& out) {
    if (!reader_.IsScalar(value, "the id of a job, such as j-12")) {
      return;
    }
    if (const auto awaited = ParseAwaited(value.node->text)) {
      out.job = awaited->job;
      out.array = awaited->array;
    } else {
      reader_.Add(value, "after: " + awaited.error().message);
    }
  }

  void ReadAfterOutcome(const Value& value, AfterOutcome& out) {
    if (!reader_.IsScalar(value, "success, failure or any")) {
      return;
    }
    if (const auto on = ParseAfterOutcome(value.node->text)) {
      out = *on;
    } else {
      reader_.Add(value, "after: " + on.error().message);
    }
  }

  JobSpec spec_;
  FieldReader reader_;
  bool version_seen_ = false;
  bool command_seen_ = false;
  bool ranks_seen_ = false;
};

}  // namespace

ParsedSpec ParseJobSpec(std::string_view text) {
  yaml::Document document = yaml::Parse(text);
  if (document.root == nullptr) {
    return {{}, std::move(document.findings)};
  }
  return SpecReader().Read(*document.root);
}

}  // namespace tide
