// FormatJobSpecYaml: the text that ParseJobSpec reads as the same spec.

#include <algorithm>
#include <array>
#include <charconv>

#include "common/base/utf8.h"
#include "common/spec/dependency_text.h"
#include "common/spec/signal_names.h"
#include "common/spec/span_text.h"
#include "common/spec/spec_text.h"

namespace tide {
namespace {

bool IsPlainChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./+=-").find(c) != std::string_view::npos;
}

// Whether YAML reads `text` as itself without quotes, also inside [ ].
bool IsPlain(std::string_view text) {
  constexpr std::array<std::string_view, 6> kNulls = {"", "null", "Null", "NULL", "---", "..."};
  if (std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end() || text == "-" ||
      text.front() == '=') {
    return false;
  }
  return std::all_of(text.begin(), text.end(), IsPlainChar);
}

// Escapes what would steer the terminal of who looks at another's spec; the reader gets it back.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const auto point = NextCodePoint(text, pos);
    if (point == U'"' || point == U'\\') {
      out += '\\';
      out += text[begin];
    } else if (point == U'\n') {
      out += "\\n";
    } else if (point && SteersTerminal(*point)) {
      out += EscapeOf(*point);
    } else {
      out += text.substr(begin, pos - begin);
    }
  }
  return out + "\"";
}

std::string Scalar(std::string_view text) {
  return IsPlain(text) ? std::string(text) : Quoted(text);
}

// Whether a literal block gives the script back byte for byte.
bool FitsBlock(std::string_view script) {
  if (script.size() < 2 || script.front() == ' ' || script.front() == '\n' ||
      !script.ends_with('\n') || script.ends_with("\n\n")) {
    return false;
  }
  for (size_t pos = 0; pos < script.size();) {
    const auto point = NextCodePoint(script, pos);
    if (point && *point != U'\n' && SteersTerminal(*point)) {
      return false;
    }
  }
  return script.find(" \n") == std::string_view::npos;
}

std::string Command(const std::vector<std::string>& command) {
  if (command.size() == 3 && command[0] == "/bin/bash" && command[1] == "-c" &&
      FitsBlock(command[2])) {
    std::string out = "script: |\n";
    std::string_view rest = command[2];
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      out += (end == 0 ? "" : "  ") + std::string(rest.substr(0, end + 1));
      rest.remove_prefix(end + 1);
    }
    return out;
  }
  std::string out = "command: [";
  for (const std::string& word : command) {
    out += (out.back() == '[' ? "" : ", ") + Scalar(word);
  }
  return out + "]\n";
}

std::string GibibytesText(uint64_t bytes) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(),
                                 text.data() + text.size(),
                                 static_cast<double>(bytes) / static_cast<double>(kGibibyte),
                                 std::chars_format::fixed);
  return {text.data(), end.ptr};
}

// Writes the keys whose value is not the default.
class Writer {
 public:
  void Key(std::string_view key, const std::string& value, const std::string& usual) {
    if (value != usual) {
      Open();
      out_ += Indent() + std::string(key) + ": " + Scalar(value) + "\n";
    }
  }
  void Key(std::string_view key, uint32_t value, uint32_t usual) {
    Key(key, std::to_string(value), std::to_string(usual));
  }
  void Key(std::string_view key, Duration value, Duration usual) {
    Key(key, FormatSpan(value), FormatSpan(usual));
  }
  // The keys that follow belong to `name`, which is written with the first of them.
  void Section(std::string_view name) { section_ = name, opened_ = false; }
  void Map(std::string_view name, const std::map<std::string, std::string>& entries) {
    Section(name);
    for (const auto& [key, value] : entries) {
      Open();
      out_ += Indent() + Scalar(key) + ": " + Scalar(value) + "\n";
    }
    Section("");
  }
  void Raw(const std::string& text) { out_ += text; }
  [[nodiscard]] std::string Take() { return std::move(out_); }

 private:
  void Open() {
    if (!section_.empty() && !opened_) {
      out_ += std::string(section_) + ":\n";
      opened_ = true;
    }
  }
  [[nodiscard]] std::string Indent() const { return section_.empty() ? "" : "  "; }

  std::string out_;
  std::string_view section_;
  bool opened_ = false;
};

void WriteResources(const JobSpec& spec, const JobSpec& usual, Writer& out) {
  out.Section("resources");
  out.Key("group", spec.group, usual.group);
  out.Key("nodes", spec.nodes, usual.nodes);
  out.Key("gpus_per_node", spec.gpus_per_node, usual.gpus_per_node);
  out.Key("ranks_per_node", spec.ranks_per_node, std::max(1U, spec.gpus_per_node));
  out.Key("cpus_per_node", spec.cpus_per_node, usual.cpus_per_node);
  out.Key("memory_gib", GibibytesText(spec.memory_bytes_per_node), GibibytesText(0));
  out.Key("disk_gib", GibibytesText(spec.disk_bytes_per_node), GibibytesText(0));
  out.Key("gpu_model", spec.gpu_model, usual.gpu_model);
  out.Section("placement");
  out.Key("zone", spec.zone, usual.zone);
  out.Section("");
}

void WritePolicy(const JobSpec& spec, const JobSpec& usual, Writer& out) {
  out.Key("priority", PriorityName(spec.priority), PriorityName(usual.priority));
  out.Section("suspend");
  out.Key("notice", spec.suspend_notice, usual.suspend_notice);
  out.Key("signal", SignalName(spec.suspend_signal), SignalName(usual.suspend_signal));
  out.Key("exit_ok", ExitOkName(spec.suspend_exit_ok_done), ExitOkName(usual.suspend_exit_ok_done));
  out.Section("checkpoint");
  out.Key("dir", spec.checkpoint_dir, usual.checkpoint_dir);
  out.Key("every", spec.checkpoint_every, usual.checkpoint_every);
  out.Section("retry");
  out.Key("failure", spec.retry_failure_max, usual.retry_failure_max);
  out.Key("hardware", spec.retry_hardware_max, usual.retry_hardware_max);
  out.Key("backoff", spec.retry_backoff, usual.retry_backoff);
  out.Section("health");
  out.Key("on_nan", std::string(OnNanName(spec.on_nan)), std::string(OnNanName(usual.on_nan)));
  out.Section("");
  out.Key("max_runtime", spec.max_runtime, usual.max_runtime);
  out.Key("start_timeout", spec.start_timeout, usual.start_timeout);
}

void WriteMounts(const std::vector<MountSpec>& mounts, Writer& out) {
  for (size_t i = 0; i < mounts.size(); ++i) {
    out.Raw((i == 0 ? "mounts:\n" : std::string()) + "  - source: " + Scalar(mounts[i].source) +
            "\n    target: " + Scalar(mounts[i].target) + "\n" +
            (mounts[i].read_only ? "    read_only: true\n" : ""));
  }
}

void WriteAfter(const std::vector<Dependency>& after, Writer& out) {
  std::string list;
  for (const Dependency& each : after) {
    const std::string job = Scalar(FormatAwaited(each));  // [ ] would end the list
    list += (list.empty() ? "" : ", ") +
            (each.on == AfterOutcome::kSuccess
                 ? job
                 : "{job: " + job + ", on: " + std::string(AfterOutcomeName(each.on)) + "}");
  }
  if (!list.empty()) {
    out.Raw("after: [" + list + "]\n");
  }
}

void WriteSecrets(const std::vector<std::string>& secrets, Writer& out) {
  std::string list;
  for (const std::string& name : secrets) {
    list += (list.empty() ? "" : ", ") + Scalar(name);
  }
  if (!list.empty()) {
    out.Raw("secrets: [" + list + "]\n");
  }
}

}  // namespace

std::string FormatJobSpecYaml(const JobSpec& spec) {
  const JobSpec usual;
  Writer out;
  out.Raw("version: 1\n");
  out.Key("name", spec.name, usual.name);
  out.Key("project", spec.project, usual.project);
  out.Key("image", spec.image, usual.image);
  out.Key("workdir", spec.workdir, usual.workdir);
  out.Raw(Command(spec.command));
  WriteResources(spec, usual, out);
  WritePolicy(spec, usual, out);
  out.Map("env", spec.env);
  out.Map("labels", spec.labels);
  WriteMounts(spec.mounts, out);
  WriteSecrets(spec.secrets, out);
  WriteAfter(spec.after, out);
  out.Key("count", spec.count, usual.count);
  return out.Take();
}

}  // namespace tide
