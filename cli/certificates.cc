// tide admin ca: the authority that says which programs belong to a cluster. Works on a folder of
// this machine, without a server.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/verbs.h"
#include "common/certificates/authority.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

using certificates::Authority;
using certificates::Identity;
using certificates::Issued;
using certificates::Role;

int ReportError(const Context& context, const Error& error) {
  const int code = error.code == ErrorCode::kInvalidArgument ? kExitUsage
                   : error.code == ErrorCode::kNotFound      ? kExitNotFound
                                                             : kExitFailed;
  return context.Report({code, error.message, {}, false});
}

json ToJson(const Issued& issued) {
  json object = {{"serial", issued.serial},
                 {"role", ToText(issued.identity.role)},
                 {"node", nullptr},
                 {"begins", FormatRfc3339(issued.begins)},
                 {"ends", FormatRfc3339(issued.ends)},
                 {"revoked", nullptr}};
  if (!issued.identity.node.empty()) {
    object["node"] = issued.identity.node;
  }
  if (issued.revoked) {
    object["revoked"] = FormatRfc3339(*issued.revoked);
  }
  return object;
}

struct CaOptions {
  std::string folder;
  std::string name = "Tide";
  std::string role;
  std::vector<std::string> nodes;
  std::vector<std::string> hosts;
  std::string out;
  int days = 365;
  std::string serial;
};

int Init(const Context& context, const CaOptions& options) {
  const auto made = Authority::Init(options.folder, options.name, SystemNow());
  if (!made) {
    return ReportError(context, made.error());
  }
  context.Hint(options.folder +
               "/ca.key signs for this cluster: keep it off the machines that run it");
  return kExitOk;
}

// Where each certificate goes: several agents have a folder each.
struct Wanted {
  Identity identity;
  std::string folder;
};

Result<std::vector<Wanted>> ReadWanted(const CaOptions& options) {
  TIDE_ASSIGN(const Role role, certificates::RoleFromText(options.role));
  if (role != Role::kAgent) {
    const Identity identity{role, options.nodes.empty() ? "" : options.nodes.front()};
    TIDE_TRY(CheckIdentity(identity));
    return std::vector<Wanted>{{identity, options.out}};
  }
  if (options.nodes.empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the certificate of an agent names its node: --node n1, or --node n[001-100] for many");
  }
  TIDE_ASSIGN(const std::vector<std::string> nodes, ExpandNodes(options.nodes));
  std::vector<Wanted> wanted;
  for (const std::string& node : nodes) {
    const Identity identity{role, node};
    TIDE_TRY(CheckIdentity(identity));
    wanted.push_back({identity, options.out + "/" + node});
  }
  return wanted;
}

int Issue(const Context& context, const CaOptions& options) {
  const auto authority = Authority::Open(options.folder);
  const auto wanted = authority ? ReadWanted(options) : std::unexpected(authority.error());
  if (!wanted) {
    return ReportError(context, wanted.error());
  }
  for (const Wanted& each : *wanted) {
    const auto issued =
        authority->Issue({each.identity, options.hosts, options.days}, each.folder, SystemNow());
    if (!issued) {
      return ReportError(context, issued.error());
    }
    if (context.format() == Format::kTable) {
      context.Print(each.folder + ": " + Describe(each.identity) + ", until " +
                    FormatRfc3339(issued->ends) + "\n");
    } else if (context.format() == Format::kName) {
      context.Print(issued->serial + "\n");
    } else {
      context.PrintJson(ToJson(*issued));
    }
  }
  return kExitOk;
}

int List(const Context& context, const CaOptions& options) {
  const auto authority = Authority::Open(options.folder);
  const auto all = authority ? authority->List() : std::unexpected(authority.error());
  if (!all) {
    return ReportError(context, all.error());
  }
  json list = {{"items", json::array()}};
  for (const Issued& issued : *all) {
    list["items"].push_back(ToJson(issued));
  }
  context.PrintList(list, "serial", [&] {
    Table table({{.title = "SERIAL"},
                 {.title = "ROLE"},
                 {.title = "NODE", .hide_empty = true},
                 {.title = "UNTIL"},
                 {.title = "REVOKED", .hide_empty = true}});
    for (const Issued& issued : *all) {
      const bool over = issued.ends < SystemNow();
      table.Add({{issued.serial},
                 {std::string(ToText(issued.identity.role))},
                 {issued.identity.node},
                 {FormatRfc3339(issued.ends), over ? Tone::kBad : Tone::kPlain},
                 {issued.revoked ? FormatRfc3339(*issued.revoked) : ""}});
    }
    return table;
  });
  return kExitOk;
}

int Revoke(const Context& context, const CaOptions& options) {
  const auto authority = Authority::Open(options.folder);
  const Status revoked = authority ? authority->Revoke(options.serial, SystemNow())
                                   : std::unexpected(authority.error());
  if (!revoked) {
    return ReportError(context, revoked.error());
  }
  context.Hint("Copy " + options.folder +
               "/crl.pem into the folder of each program (--tls); they "
               "read it within seconds");
  return kExitOk;
}

}  // namespace

void AddCaVerbs(CLI::App& admin, Context& context) {
  CLI::App* ca =
      admin.add_subcommand("ca", "Certificates by which the programs of a cluster know each other");
  ca->require_subcommand(1);
  const auto options = std::make_shared<CaOptions>();
  const auto add =
      [&](const char* name, const char* does, int (*run)(const Context&, const CaOptions&)) {
        CLI::App* verb = ca->add_subcommand(name, does);
        verb->add_option("folder", options->folder, "Of the authority")->required();
        verb->callback([options, run, &context] { context.exit_code = run(context, *options); });
        return verb;
      };
  add("init", "Make an authority in an empty folder", Init)
      ->add_option("--name", options->name, "As its certificate says")
      ->capture_default_str();
  CLI::App* issue = add("issue", "Make a program's key and certificate, for its --tls", Issue);
  issue->add_option("--role", options->role, "scheduler, agent or api")->required();
  issue->add_option("--node", options->nodes, "Of an agent; n[001-100] makes a hundred")
      ->delimiter(',');
  issue->add_option("--out", options->out, "Folder to write to; of agents each gets one below")
      ->required();
  issue
      ->add_option(
          "--host", options->hosts, "Name or address that browsers and tide use for the API")
      ->delimiter(',');
  issue->add_option("--days", options->days, "How long it is valid")->capture_default_str();
  add("list", "Show what it has issued", List);
  add("revoke", "Have a certificate refused from now on", Revoke)
      ->add_option("serial", options->serial, "As `tide admin ca list` shows it")
      ->required();
}

}  // namespace tide::cli
