// tide login, logout, whoami, ui, token: who you are to the server.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/context.h"
#include "cli/profile.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

constexpr size_t kTokenMax = 1024;

// One line: typed, and then not shown, or piped.
std::string ReadTokenLine() {
  const bool typed = ::isatty(STDIN_FILENO) != 0;
  std::string line;
  const auto read = [&line] {
    for (char c = 0; line.size() < kTokenMax && ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) {
      line += c;
    }
  };
  if (typed) {
    const SilentTerminal silent;
    std::fputs("Token (not shown): ", stderr);
    read();
  } else {
    read();
  }
  if (typed) {
    std::fputs("\n", stderr);
  }
  return line;
}

std::string Describe(const json& self) {
  std::string line = Text(self, "user") + " (" + Text(self, "role") + ")";
  const std::string scopes = Text(self, "scopes");
  if (scopes != "read,jobs,nodes,admin") {
    line += ", by a token for " + scopes;
  }
  return line;
}

int Login(Context& context) {
  const std::string token = ReadTokenLine();
  if (token.empty()) {
    return context.Report(
        {kExitUsage, "there is no token on standard input: tide login <file, or type it"});
  }
  auto server = context.Address();
  if (!server) {
    return context.Report(server.error());
  }
  server->token = token;
  context.UseToken(token);
  const auto self = context.Get("/v1/session");
  if (!self) {
    return context.Report(self.error());
  }
  if (const Status kept = WriteProfile(UserProfilePath(), *server); !kept) {
    return context.Report({kExitFailed, kept.error().message});
  }
  context.Print("Signed in to " + server->url + " as " + Describe(*self) + "\n");
  context.Hint("The token is in " + UserProfilePath() + ", for you alone.");
  return kExitOk;
}

int Logout(Context& context) {
  const auto server = context.Address();
  if (!server) {
    return context.Report(server.error());
  }
  const auto ended = context.Post("/v1/logout", {"{}"});
  if (!ended) {
    return context.Report(ended.error());
  }
  if (const Status forgotten = ForgetToken(UserProfilePath(), server->url); !forgotten) {
    return context.Report({kExitFailed, forgotten.error().message});
  }
  context.Print("Signed out of " + server->url + ": the token is revoked\n");
  return kExitOk;
}

int WhoAmI(Context& context) {
  const auto self = context.Get("/v1/session");
  if (!self) {
    return context.Report(self.error());
  }
  if (context.format() == Format::kName) {
    context.Print(Printable(Text(*self, "user")) + "\n");
    return kExitOk;
  }
  if (context.format() != Format::kTable) {
    context.PrintJson(*self);
    return kExitOk;
  }
  std::string text = Describe(*self) + "\n";
  const std::string expires = Text(*self, "expires_at");
  text += "token     " + std::to_string(Number(*self, "token", 0)) +
          (expires.empty() ? ", does not expire" : ", until " + expires) + "\n";
  for (const json& project : Items(*self, "projects")) {
    text += "project   " + Printable(Text(project, "name")) + ", up to " +
            Text(project, "max_class") +
            (Text(project, "name") == Text(*self, "project") ? ", where none is named" : "") + "\n";
  }
  context.Print(text);
  return kExitOk;
}

int Ui(Context& context) {
  const auto server = context.Address();
  const auto code = context.Post("/v1/codes", {"{}"});
  if (!server || !code) {
    return context.Report(!server ? server.error() : code.error());
  }
  context.Print(server->url + "/#code=" + Text(*code, "token") + "\n");
  context.Hint("Opens the dashboard signed in as you, once, within a minute.");
  return kExitOk;
}

struct TokenOptions {
  std::string user;
  std::string label;
  std::string scopes;
  std::string expires;
  uint64_t id = 0;
};

int CreateToken(Context& context, const TokenOptions& options) {
  json body = json::object();
  for (const auto& [key, value] : {std::pair{"user", &options.user},
                                   std::pair{"label", &options.label},
                                   std::pair{"scopes", &options.scopes},
                                   std::pair{"expires", &options.expires}}) {
    if (!value->empty()) {
      body[key] = *value;
    }
  }
  const auto token = context.Post("/v1/tokens", {body.dump()});
  if (!token) {
    return context.Report(token.error());
  }
  if (context.format() == Format::kJson || context.format() == Format::kJsonl) {
    context.PrintJson(*token);
    return kExitOk;
  }
  context.Print(Text(*token, "token") + "\n");
  const std::string expires = Text(*token, "expires_at");
  context.Hint("Token " + std::to_string(Number(*token, "id", 0)) + ", for " +
               Printable(Text(*token, "user")) + ", to " + Text(*token, "scopes") +
               (expires.empty() ? ", never expires" : ", until " + expires) +
               ". It is shown this once; `tide login` takes it.");
  return kExitOk;
}

int ListTokens(Context& context, const TokenOptions& options) {
  const auto list =
      context.Get("/v1/tokens" + (options.user.empty() ? "" : "?user=" + UrlStep(options.user)));
  if (!list) {
    return context.Report(list.error());
  }
  context.PrintList(*list, "id", [&] {
    Table table({{.title = "TOKEN", .right = true},
                 {.title = "KIND"},
                 {.title = "LABEL", .hide_empty = true},
                 {.title = "FOR"},
                 {.title = "MADE", .right = true},
                 {.title = "USED", .right = true},
                 {.title = "ENDS", .right = true},
                 {.title = "", .hide_empty = true}});
    const Instant now = SystemNow();
    const auto ago = [now](const json& token, const char* key) {
      return Text(token, key).empty() ? "never" : Since(Time(token, key), now) + " ago";
    };
    for (const json& token : Items(*list, "items")) {
      const bool ends = !Text(token, "expires_at").empty();
      table.Add({{std::to_string(Number(token, "id", 0))},
                 {Text(token, "kind")},
                 {Text(token, "label")},
                 {Text(token, "scopes")},
                 {ago(token, "created_at")},
                 {ago(token, "used_at")},
                 {ends ? "in " + FormatDuration(Time(token, "expires_at") - now) : "never"},
                 {Flag(token, "this") ? "this one" : ""}});
    }
    return table;
  });
  return kExitOk;
}

int RevokeToken(Context& context, uint64_t id) {
  const auto revoked = context.Delete("/v1/tokens/" + std::to_string(id));
  if (!revoked) {
    return context.Report(revoked.error());
  }
  context.Print("Token " + std::to_string(id) + " is revoked\n");
  return kExitOk;
}

}  // namespace

void AddSignInVerbs(CLI::App& app, Context& context) {
  app.add_subcommand("login", "Keep a token, from standard input, for this server")
      ->callback([&context] { context.exit_code = Login(context); });
  app.add_subcommand("logout", "Revoke the token in use and forget it")->callback([&context] {
    context.exit_code = Logout(context);
  });
  app.add_subcommand("whoami", "Who you are to the server")->callback([&context] {
    context.exit_code = WhoAmI(context);
  });
  app.add_subcommand("ui", "A link that opens the dashboard signed in")->callback([&context] {
    context.exit_code = Ui(context);
  });
}

void AddTokenVerb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("token", "Tokens and sessions: create, list, revoke");
  verb->require_subcommand(1);
  const auto options = std::make_shared<TokenOptions>();
  CLI::App* create = verb->add_subcommand("create", "Make a token and print it, once");
  create->add_option("--label", options->label, "Your word for it, such as laptop");
  create->add_option("--scopes", options->scopes, "Some of read,jobs,nodes,admin; all you may");
  create->add_option("--expires", options->expires, "Such as 30d, or never; 90d");
  create->add_option("--user", options->user, "For another; only admins");
  create->callback([options, &context] { context.exit_code = CreateToken(context, *options); });
  CLI::App* list = verb->add_subcommand("list", "Your tokens and sessions");
  list->add_option("--user", options->user, "Another's; only admins");
  list->callback([options, &context] { context.exit_code = ListTokens(context, *options); });
  CLI::App* revoke = verb->add_subcommand("revoke", "End a token or session, at once");
  revoke->add_option("id", options->id, "Of `tide token list`")->required();
  revoke->callback([options, &context] { context.exit_code = RevokeToken(context, options->id); });
}

}  // namespace tide::cli
