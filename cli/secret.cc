// tide secret set, list, remove: what jobs name in `secrets:`. Values come from standard input
// alone: a command line is everybody's to read, and stays in the shell's history.

#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "common/spec/secret_name.h"

namespace tide::cli {
namespace {

constexpr size_t kValueMax = size_t{64} << 10U;

// All of it, or a little more than a value may have.
Answer<std::string> ReadPiped() {
  std::string value;
  std::array<char, 4096> piece{};
  while (value.size() <= kValueMax + 1) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno != EINTR) {
      return Refuse(kExitUsage, FailErrno("cannot read standard input", errno).error().message);
    }
    if (got == 0) {
      break;
    }
    value.append(piece.data(), got > 0 ? static_cast<size_t>(got) : 0);
  }
  if (value.ends_with('\n')) {
    value.pop_back();  // of `echo`, and of files that end with a line
  }
  return value;
}

Answer<std::string> ReadTyped(const std::string& name) {
  std::string line;
  {
    const SilentTerminal silent;
    std::fprintf(stderr, "Value of %s (not shown): ", name.c_str());
    for (char c = 0; line.size() <= kValueMax && ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) {
      line += c;
    }
  }
  std::fputs("\n", stderr);
  return line;
}

Answer<std::string> ReadValue(const std::string& name) {
  auto value = ::isatty(STDIN_FILENO) != 0 ? ReadTyped(name) : ReadPiped();
  if (value && value->empty()) {
    return Refuse(kExitUsage,
                  "there is no value on standard input; write it there, such as: tide secret set " +
                      name + " <file");
  }
  if (value && value->size() > kValueMax) {
    return Refuse(kExitUsage, "the value of a secret may have up to 64 KiB");
  }
  return value;
}

Answer<std::string> PathOf(const std::string& name) {
  if (!IsSecretName(name)) {
    return Refuse(kExitUsage, "the name of a secret" + std::string(kSecretNameRule));
  }
  return "/v1/secrets/" + name;
}

void PrintEntry(const Context& context, const json& entry, const std::string& said) {
  switch (context.format()) {
    case Format::kTable:
      context.Print(said + "\n");
      return;
    case Format::kName:
      context.Print(Printable(Text(entry, "name")) + "\n");
      return;
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(entry);
      return;
  }
}

int Set(Context& context, const std::string& name) {
  const auto path = PathOf(name);
  const auto value = path ? ReadValue(name) : Answer<std::string>(std::unexpected(path.error()));
  if (!value) {
    return context.Report(value.error());
  }
  const auto entry = context.Put(*path, *value);
  if (!entry) {
    return context.Report(entry.error());
  }
  PrintEntry(context,
             *entry,
             name + " is kept (" + std::to_string(Number(*entry, "bytes", 0)) +
                 " bytes), for starts from now on");
  context.Hint("A job that names it in `secrets: [" + name + "]` has it as " +
               SecretVariable(name) + " and in the file " + std::string(kSecretsInContainer) + "/" +
               name);
  return kExitOk;
}

int Remove(Context& context, const std::string& name) {
  const auto path = PathOf(name);
  const auto removed = path ? context.Delete(*path) : Answer<json>(std::unexpected(path.error()));
  if (!removed) {
    return context.Report(removed.error());
  }
  PrintEntry(context, *removed, name + " is removed; jobs that name it fail at their next start");
  return kExitOk;
}

int List(Context& context) {
  const auto list = context.Get("/v1/secrets");
  if (!list) {
    return context.Report(list.error());
  }
  context.PrintList(*list, "name", [&] {
    Table table({{.title = "NAME"},
                 {.title = "VARIABLE"},
                 {.title = "BYTES", .right = true},
                 {.title = "CHANGED", .right = true}});
    const Instant now = SystemNow();
    for (const json& each : Items(*list, "items")) {
      const std::string name = Text(each, "name");
      table.Add({{name},
                 {SecretVariable(name)},
                 {std::to_string(Number(each, "bytes", 0))},
                 {Since(Time(each, "changed_at"), now) + " ago"}});
    }
    return table;
  });
  if (Items(*list, "items").empty()) {
    context.Hint("No secrets yet; set one with: tide secret set NAME <file");
  }
  return kExitOk;
}

}  // namespace

void AddSecretVerb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("secret", "Keys and passwords for jobs: set, list, remove");
  verb->require_subcommand(1);
  const auto name = std::make_shared<std::string>();
  CLI::App* set = verb->add_subcommand("set", "Keep a secret, its value from standard input");
  set->add_option("name", *name, "Such as wandb-api-key")->required();
  set->callback([name, &context] { context.exit_code = Set(context, *name); });
  CLI::App* list = verb->add_subcommand("list", "Your secrets; never their values");
  list->callback([&context] { context.exit_code = List(context); });
  CLI::App* remove = verb->add_subcommand("remove", "Forget a secret");
  remove->add_option("name", *name, "Of `tide secret list`")->required();
  remove->callback([name, &context] { context.exit_code = Remove(context, *name); });
}

}  // namespace tide::cli
