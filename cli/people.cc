// tide user, tide project: who there is, and who may charge what.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/context.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

// One object, or in the table format what was done with it.
int Show(Context& context, const Answer<json>& object, const char* name, const std::string& said) {
  if (!object) {
    return context.Report(object.error());
  }
  if (context.format() == Format::kTable) {
    context.Print(said + "\n");
  } else if (context.format() == Format::kName) {
    context.Print(Printable(Text(*object, name)) + "\n");
  } else {
    context.PrintJson(*object);
  }
  return kExitOk;
}

std::string Gids(const json& user) {
  std::string text;
  for (const json& gid : Items(user, "gids")) {
    text += (text.empty() ? "" : ",") + gid.dump();
  }
  return text;
}

int ListUsers(Context& context) {
  const auto list = context.Get("/v1/users");
  if (!list) {
    return context.Report(list.error());
  }
  context.PrintList(*list, "name", [&] {
    Table table({{.title = "USER"},
                 {.title = "ROLE"},
                 {.title = "UID", .right = true, .hide_empty = true},
                 {.title = "GROUPS", .hide_empty = true},
                 {.title = "PROJECT", .hide_empty = true},
                 {.title = "SINCE", .right = true}});
    const Instant now = SystemNow();
    for (const json& user : Items(*list, "items")) {
      const int64_t uid = Number(user, "uid", 0);
      table.Add({{Text(user, "name")},
                 {Text(user, "role")},
                 {uid == 0 ? "" : std::to_string(uid)},
                 {Gids(user)},
                 {Text(user, "project")},
                 {Since(Time(user, "created_at"), now)}});
    }
    return table;
  });
  return kExitOk;
}

struct UserOptions {
  std::string name;
  std::optional<std::string> role;
  std::optional<uint32_t> uid;
  std::vector<uint32_t> gids;
  std::optional<std::string> project;
  bool again = false;
};

json BodyOf(const UserOptions& options) {
  json body = json::object();
  if (options.role) {
    body["role"] = *options.role;
  }
  if (options.uid) {
    body["uid"] = *options.uid;
    body["gids"] = options.gids;
  }
  if (options.project) {
    body["project"] = *options.project;
  }
  return body;
}

int AddUser(Context& context, const UserOptions& options) {
  json body = BodyOf(options);
  body["name"] = options.name;
  if (options.again) {
    body["again"] = true;
  }
  const auto user = context.Post("/v1/users", {body.dump()});
  const int code = Show(context, user, "name", options.name + " is added");
  if (code == kExitOk) {
    context.Hint("A token to sign in with: tide token create --user " + options.name);
  }
  return code;
}

int SetUser(Context& context, const UserOptions& options) {
  const auto user = context.Patch("/v1/users/" + UrlStep(options.name), BodyOf(options).dump());
  return Show(context, user, "name", options.name + " is changed");
}

void AddUserOptions(CLI::App& verb, UserOptions& options) {
  verb.add_option("name", options.name, "As on the nodes, such as ann")->required();
  verb.add_option("--role", options.role, "viewer, user, operator or admin");
  verb.add_option("--uid", options.uid, "Account that its jobs run as, where nodes know no name");
  verb.add_option("--gids", options.gids, "Its groups, such as 20017,20100")->delimiter(',');
  verb.add_option("--project", options.project, "Of jobs that name none");
}

int ListProjects(Context& context, bool only_mine) {
  const auto list = context.Get("/v1/projects");
  const auto self = only_mine ? context.Get("/v1/session") : Answer<json>(json::object());
  if (!list || !self) {
    return context.Report(!list ? list.error() : self.error());
  }
  const std::string me = Text(*self, "user");
  const auto is_mine = [&](const json& project) {
    for (const json& member : Items(project, "members")) {
      if (Text(member, "user") == me) {
        return true;
      }
    }
    return false;
  };
  json shown = *list;
  shown["items"] = json::array();
  for (const json& project : Items(*list, "items")) {
    if (!only_mine || is_mine(project)) {
      shown["items"].push_back(project);
    }
  }
  context.PrintList(shown, "name", [&] {
    Table table({{.title = "PROJECT"},
                 {.title = "SEEN BY"},
                 {.title = "MEMBER", .hide_empty = true},
                 {.title = "UP TO", .hide_empty = true},
                 {.title = "EXEC", .hide_empty = true}});
    for (const json& project : Items(shown, "items")) {
      std::string name = Text(project, "name");
      std::string seen = Text(project, "visibility") == "project" ? "members" : "owner";
      for (const json& member : Items(project, "members")) {
        table.Add({{name},
                   {seen},
                   {Text(member, "user")},
                   {Text(member, "max_class")},
                   {Flag(member, "exec") ? "yes" : "no"}});
        name = "";
        seen = "";
      }
      if (!name.empty()) {
        table.Add({{name}, {seen}, {""}, {""}, {""}});
      }
    }
    return table;
  });
  return kExitOk;
}

struct MemberOptions {
  std::string project;
  std::string user;
  std::optional<std::string> most;
  bool exec = false;
  bool no_exec = false;
};

std::string MemberPath(const MemberOptions& options) {
  return "/v1/projects/" + UrlStep(options.project) + "/members/" + UrlStep(options.user);
}

int AddMember(Context& context, const MemberOptions& options) {
  json body = json::object();
  if (options.most) {
    body["max_class"] = *options.most;
  }
  if (options.exec || options.no_exec) {
    body["exec"] = options.exec;
  }
  const auto project = context.Put(MemberPath(options), body.dump());
  return Show(context, project, "name", options.user + " is a member of " + options.project);
}

void AddProjectMemberVerbs(CLI::App& verb, Context& context) {
  const auto options = std::make_shared<MemberOptions>();
  CLI::App* add = verb.add_subcommand("add", "Make a user a member, or change its membership");
  add->add_option("project", options->project, "Of `tide project list`")->required();
  add->add_option("user", options->user, "Of `tide user list`")->required();
  add->add_option("--class", options->most, "Highest class its jobs may ask for; normal at first");
  CLI::Option* exec = add->add_flag("--exec", options->exec, "It may run commands in its tasks");
  add->add_flag("--no-exec", options->no_exec, "It may not")->excludes(exec);
  add->callback([options, &context] { context.exit_code = AddMember(context, *options); });
  CLI::App* drop = verb.add_subcommand("drop", "End a membership");
  drop->add_option("project", options->project, "Of `tide project list`")->required();
  drop->add_option("user", options->user, "Its member")->required();
  drop->callback([options, &context] {
    context.exit_code = Show(context,
                             context.Delete(MemberPath(*options)),
                             "name",
                             options->user + " is no member of " + options->project + " any more");
  });
}

}  // namespace

void AddUserVerb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("user", "Users: list, add, set, remove");
  verb->require_subcommand(1);
  const auto options = std::make_shared<UserOptions>();
  CLI::App* list = verb->add_subcommand("list", "Who there is");
  list->callback([&context] { context.exit_code = ListUsers(context); });
  CLI::App* add = verb->add_subcommand("add", "Add a user");
  AddUserOptions(*add, *options);
  add->add_flag("--again", options->again, "It is who had this name before and was removed");
  add->callback([options, &context] { context.exit_code = AddUser(context, *options); });
  CLI::App* set = verb->add_subcommand("set", "Change a user; what is not named stays");
  AddUserOptions(*set, *options);
  set->callback([options, &context] { context.exit_code = SetUser(context, *options); });
  CLI::App* remove = verb->add_subcommand("remove", "Remove a user with all its tokens");
  remove->add_option("name", options->name, "Of `tide user list`")->required();
  remove->callback([options, &context] {
    context.exit_code = Show(context,
                             context.Delete("/v1/users/" + UrlStep(options->name)),
                             "name",
                             options->name + " is removed, and its tokens end; its jobs run on");
  });
}

void AddProjectVerb(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("project", "Projects and their members: list, set, remove, add, drop");
  verb->require_subcommand(1);
  const auto only_mine = std::make_shared<bool>(false);
  CLI::App* list = verb->add_subcommand("list", "Projects with their members");
  list->add_flag("--me", *only_mine, "Those that you are a member of");
  list->callback([only_mine, &context] { context.exit_code = ListProjects(context, *only_mine); });
  const auto name = std::make_shared<std::string>();
  const auto visibility = std::make_shared<std::optional<std::string>>();
  CLI::App* set = verb->add_subcommand("set", "Make a project, or change one");
  set->add_option("name", *name, "As in specs, such as vision")->required();
  set->add_option("--visibility", *visibility, "project = members see each other's jobs; or owner")
      ->check(CLI::IsMember({"project", "owner"}));
  set->callback([name, visibility, &context] {
    json body = json::object();
    if (*visibility) {
      body["visibility"] = **visibility;
    }
    const auto project = context.Put("/v1/projects/" + UrlStep(*name), body.dump());
    context.exit_code = Show(context, project, "name", *name + " is there");
  });
  CLI::App* remove = verb->add_subcommand("remove", "Remove a project; its jobs run on");
  remove->add_option("name", *name, "Of `tide project list`")->required();
  remove->callback([name, &context] {
    context.exit_code = Show(context,
                             context.Delete("/v1/projects/" + UrlStep(*name)),
                             "name",
                             *name + " is removed; its jobs run on");
  });
  AddProjectMemberVerbs(*verb, context);
}

}  // namespace tide::cli
