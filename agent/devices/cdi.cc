#include "agent/devices/cdi.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <ranges>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/spec/yaml_tree.h"

namespace tide::agent {
namespace {

using yaml::Kind;
using yaml::NodePtr;

constexpr yaml::DocumentKind kDocument{"CDI file", 8};
constexpr int kNewestMajor = 1;

std::string Place(const NodePtr& node) {
  return "line " + std::to_string(node->line);
}

std::unexpected<Error> Wrong(const NodePtr& node, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, Place(node) + ": " + what);
}

using Fields = std::map<std::string, std::function<Status(const NodePtr&)>>;

// Each entry of a map goes to its field. What is not known might matter: it is an error, as in the
// specification.
Status ReadFields(const NodePtr& map, const std::string& what, const Fields& fields) {
  if (map->kind != Kind::kMap) {
    return Wrong(map, what + " is no map");
  }
  for (const auto& [key, value] : map->entries) {
    const auto field = fields.find(key->text);
    if (field == fields.end()) {
      return Wrong(key, key->text + " in " + what + " is not known to this version");
    }
    TIDE_TRY(field->second(value));
  }
  return {};
}

auto Ignored() {
  return [](const NodePtr& /*value*/) { return Status(); };
}

auto Text(std::string& to) {
  return [&to](const NodePtr& value) -> Status {
    if (value->kind != Kind::kScalar) {
      return Wrong(value, "a text is expected");
    }
    to = value->text;
    return {};
  };
}

// A leading 0 makes it octal, as YAML 1.1 has it, in which such files are written.
auto ANumber(uint32_t& to) {
  return [&to](const NodePtr& value) -> Status {
    std::string_view text = value->text;
    const bool octal = text.size() > 1 && text.starts_with('0') && !value->quoted;
    if (octal && text.starts_with("0o")) {
      text.remove_prefix(2);
    }
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), to, octal ? 8 : 10);
    if (value->kind != Kind::kScalar || error != std::errc() || end != text.data() + text.size()) {
      return Wrong(value, "a number is expected");
    }
    return {};
  };
}

auto Items(std::function<Status(const NodePtr&)> read) {
  return [read = std::move(read)](const NodePtr& value) -> Status {
    if (value->kind == Kind::kNothing || value->kind == Kind::kNull) {
      return {};
    }
    if (value->kind != Kind::kSequence) {
      return Wrong(value, "a list is expected");
    }
    for (const NodePtr& item : value->items) {
      TIDE_TRY(read(item));
    }
    return {};
  };
}

Status NeedPath(const NodePtr& node, const std::string& path, const std::string& what) {
  return path.starts_with('/') ? Status() : Status(Wrong(node, what + " is no absolute path"));
}

Status ReadEnv(const NodePtr& item, CdiEdits& edits) {
  const size_t equals = item->text.find('=');
  if (item->kind != Kind::kScalar || equals == 0 || equals == std::string::npos) {
    return Wrong(item, "env is of the form KEY=VALUE");
  }
  edits.env[item->text.substr(0, equals)] = item->text.substr(equals + 1);
  return {};
}

Status ReadNode(const NodePtr& item, CdiEdits& edits) {
  DeviceNode node;
  // The device itself says of which kind it is; it must be there anyway.
  TIDE_TRY(ReadFields(item,
                      "a device node",
                      {{"path", Text(node.path)},
                       {"hostPath", Text(node.host_path)},
                       {"permissions", Text(node.access)},
                       {"type", Ignored()},
                       {"major", Ignored()},
                       {"minor", Ignored()},
                       {"fileMode", ANumber(node.mode)},
                       {"uid", Ignored()},
                       {"gid", Ignored()}}));
  if (node.host_path.empty()) {
    node.host_path = node.path;
  }
  if (node.access.empty()) {
    node.access = DeviceNode().access;
  }
  if (node.mode > 07777) {
    return Wrong(item, "fileMode is of at most twelve bits");
  }
  if (node.access.find_first_not_of("rwm") != std::string::npos) {
    return Wrong(item, "permissions are of the letters r, w and m");
  }
  TIDE_TRY(NeedPath(item, node.path, "path"));
  TIDE_TRY(NeedPath(item, node.host_path, "hostPath"));
  edits.nodes.push_back(std::move(node));
  return {};
}

Status ReadMount(const NodePtr& item, CdiEdits& edits) {
  MountConfig mount;
  std::string type;
  TIDE_TRY(ReadFields(item,
                      "a mount",
                      {{"hostPath", Text(mount.source)},
                       {"containerPath", Text(mount.target)},
                       {"type", Text(type)},
                       {"options", Items([&](const NodePtr& option) {
                          mount.read_only = mount.read_only || option->text == "ro";
                          return Status();
                        })}}));
  if (!type.empty() && type != "bind" && type != "none") {
    return Wrong(item, "a mount of type " + type + " is not known to this version");
  }
  TIDE_TRY(NeedPath(item, mount.source, "hostPath"));
  TIDE_TRY(NeedPath(item, mount.target, "containerPath"));
  edits.mounts.push_back(std::move(mount));
  return {};
}

Status ReadHook(const NodePtr& item, CdiEdits& edits) {
  HookConfig hook;
  const auto text = [](std::vector<std::string>& to) {
    return Items([&to](const NodePtr& value) { return Text(to.emplace_back())(value); });
  };
  TIDE_TRY(ReadFields(item,
                      "a hook",
                      {{"hookName", Text(hook.stage)},
                       {"path", Text(hook.path)},
                       {"args", text(hook.args)},
                       {"env", text(hook.env)},
                       {"timeout", ANumber(hook.timeout_s)}}));
  constexpr std::array kStages = {
      "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};
  if (std::ranges::find(kStages, hook.stage) == kStages.end()) {
    return Wrong(item, "hookName " + hook.stage + " is no stage of a container's life");
  }
  TIDE_TRY(NeedPath(item, hook.path, "path"));
  if (hook.args.empty()) {
    hook.args.push_back(hook.path);
  }
  edits.hooks.push_back(std::move(hook));
  return {};
}

auto Edits(CdiEdits& edits) {
  return [&edits](const NodePtr& value) {
    return ReadFields(
        value,
        "containerEdits",
        {{"env", Items([&](const NodePtr& item) { return ReadEnv(item, edits); })},
         {"deviceNodes", Items([&](const NodePtr& item) { return ReadNode(item, edits); })},
         {"mounts", Items([&](const NodePtr& item) { return ReadMount(item, edits); })},
         {"hooks", Items([&](const NodePtr& item) { return ReadHook(item, edits); })},
         {"additionalGids",
          Items([&](const NodePtr& item) { return ANumber(edits.groups.emplace_back())(item); })}});
  };
}

Status CheckVersion(const NodePtr& root, const std::string& version) {
  int major = -1;
  const size_t dot = version.find('.');
  const std::string_view text = std::string_view(version).substr(0, dot);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), major);
  if (dot == std::string::npos || error != std::errc() || end != text.data() + text.size()) {
    return Wrong(root, "cdiVersion is missing or none");
  }
  return major <= kNewestMajor
             ? Status()
             : Status(Wrong(root, "cdiVersion " + version + " is not known to this version"));
}

// Of a file that may not be understood otherwise.
std::string KindOf(const NodePtr& root) {
  for (const auto& [key, value] : root->entries) {
    if (key->text == "kind") {
      return value->text;
    }
  }
  return "";
}

void Append(CdiEdits& to, const CdiEdits& more) {
  for (const auto& [key, value] : more.env) {
    to.env[key] = value;
  }
  const auto add_new = [](auto& all, const auto& others) {
    for (const auto& each : others) {
      if (std::ranges::find(all, each) == all.end()) {
        all.push_back(each);
      }
    }
  };
  add_new(to.nodes, more.nodes);
  add_new(to.mounts, more.mounts);
  add_new(to.groups, more.groups);
  add_new(to.hooks, more.hooks);
}

std::string Join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    joined += (joined.empty() ? "" : ", ") + text;
  }
  return joined;
}

}  // namespace

Cdi Cdi::Read(const std::vector<std::string>& folders) {
  Cdi cdi;
  for (const std::string& folder : std::views::reverse(folders)) {
    std::error_code ignored;  // mostly there is none
    std::vector<std::string> files;
    for (std::filesystem::directory_iterator it(folder, ignored), end; it != end && !ignored;
         it.increment(ignored)) {
      const std::string ending = it->path().extension();
      if (ending == ".json" || ending == ".yaml") {
        files.push_back(it->path());
      }
    }
    std::ranges::sort(files);
    for (const std::string& file : files) {
      cdi.ReadFile(file);
    }
  }
  return cdi;
}

void Cdi::ReadFile(const std::string& path) {
  const auto text = tide::ReadFile(path, kDocument.mebibytes_max << 20);
  if (!text) {
    problems_.push_back({text.error().message, ""});
    return;
  }
  const yaml::Document document = yaml::Parse(*text, kDocument);
  if (!document.root) {
    problems_.push_back(
        {path + ": " + (document.findings.empty() ? "empty" : document.findings.front().message),
         ""});
    return;
  }
  std::string version;
  std::string kind;
  Spec spec;
  Status read =
      ReadFields(document.root,
                 "a CDI file",
                 {{"cdiVersion", Text(version)},
                  {"kind", Text(kind)},
                  {"annotations", Ignored()},
                  {"containerEdits", Edits(spec.common)},
                  {"devices", Items([&](const NodePtr& item) -> Status {
                     std::string name;
                     CdiEdits edits;
                     TIDE_TRY(ReadFields(item,
                                         "a device",
                                         {{"name", Text(name)},
                                          {"annotations", Ignored()},
                                          {"containerEdits", Edits(edits)}}));
                     if (name.empty() || !spec.devices.try_emplace(name, std::move(edits)).second) {
                       return Wrong(item, "a device has no name, or that of another one");
                     }
                     return {};
                   })}});
  if (read) {
    read = CheckVersion(document.root, version);
  }
  if (read && kind.find('/') == std::string::npos) {
    read = Wrong(document.root, "kind is of the form VENDOR/CLASS");
  }
  if (read) {
    kinds_[kind].push_back(std::move(spec));
  } else {
    problems_.push_back({path + " " + read.error().message, KindOf(document.root)});
  }
}

bool Cdi::MayHave(const std::string& kind) const {
  return kinds_.contains(kind) || std::ranges::any_of(problems_, [&](const Problem& problem) {
           return problem.kind == kind || problem.kind.empty();
         });
}

std::vector<std::string> Cdi::problems() const {
  std::vector<std::string> texts;
  for (const Problem& problem : problems_) {
    texts.push_back(problem.text);
  }
  return texts;
}

Result<CdiEdits> Cdi::Resolve(const std::string& kind,
                              const std::vector<std::string>& names) const {
  const auto broken = std::ranges::find(problems_, kind, &Problem::kind);
  if (broken != problems_.end()) {
    return Fail(ErrorCode::kUnavailable, "CDI file " + broken->text);
  }
  CdiEdits all;
  std::set<const Spec*> used;
  const auto specs = kinds_.find(kind);
  for (const std::string& name : names) {
    const Spec* found = nullptr;
    std::vector<std::string> there;
    if (specs != kinds_.end()) {
      for (const Spec& spec : specs->second) {
        std::ranges::copy(spec.devices | std::views::keys, std::back_inserter(there));
        found = found == nullptr && spec.devices.contains(name) ? &spec : found;
      }
    }
    if (found == nullptr) {
      return Fail(ErrorCode::kUnavailable,
                  "no CDI device " + kind + "=" + name + " on this node (" +
                      (there.empty() ? "none of that kind" : "there are " + Join(there)) +
                      (problems_.empty() ? "" : "; " + Join(problems())) +
                      "); write its file again, as with nvidia-ctk cdi generate");
    }
    if (used.insert(found).second) {
      Append(all, found->common);
    }
    Append(all, found->devices.at(name));
  }
  return all;
}

}  // namespace tide::agent
