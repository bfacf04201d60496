// `tide dev`: a whole cluster on this machine, with one command.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/context.h"
#include "cli/dev/children.h"
#include "cli/dev/demo.h"
#include "cli/dev/workspace.h"
#include "cli/verbs.h"
#include "common/base/time.h"

namespace tide::cli {
namespace {

// Lines of the story with the time since the start; the demo's thread and the main one print.
class Teller {
 public:
  void Say(const std::string& line) {
    const int64_t seconds = (MonotonicNanos() - started_ns_) / 1'000'000'000;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::printf("%02lld:%02lld  %s\n",
                static_cast<long long>(seconds / 60),
                static_cast<long long>(seconds % 60),
                line.c_str());
    std::fflush(stdout);
  }

 private:
  const int64_t started_ns_ = MonotonicNanos();
  std::mutex mutex_;
};

void Introduce(const Workspace& workspace) {
  std::printf(
      "tide dev: scheduler, API, web and %zu agents on this machine\n"
      "  web   %s   (`tide ui` signs you in)\n",
      workspace.nodes().size(),
      workspace.server().c_str());
  if (::geteuid() == 0) {
    std::printf(
        "  jobs  run as user %u%s\n",
        PersonOfJobs().uid,
        PersonOfJobs().home.empty() ? ": as root nobody runs any; sudo tide dev runs yours" : "");
  } else {
    std::printf("  jobs  run as you, and nothing keeps them apart\n");
  }
  if (workspace.profile().ours()) {
    std::printf("  CLI   %s/tide ps   (finds this cluster by itself)\n", workspace.bin().c_str());
  } else {
    std::printf(
        "  CLI   TIDE_DEV_PROFILE=%s %s/tide ps\n"
        "        (by itself it finds %s, which is another tide dev)\n",
        workspace.profile_path().c_str(),
        workspace.bin().c_str(),
        workspace.profile().other_server().c_str());
  }
  std::printf(
      "  logs  %s/logs/\n"
      "  Ctrl-C stops everything and cleans up.\n",
      workspace.root().c_str());
  std::fflush(stdout);
}

// A link that signs a browser in, once the API answers; nothing where it does not in time.
std::optional<std::string> SignInLink(const Workspace& workspace) {
  constexpr Duration kPatience = Duration::Seconds(20);
  const Client client({workspace.server(), workspace.token(), "tide dev"}, {kPatience, kPatience});
  const auto answer = client.Post("/v1/codes", {R"({"ttl_s":600})", "application/json", "dev"});
  const json code = answer ? json::parse(*answer, nullptr, false) : json();
  return code.is_object() ? std::optional(workspace.server() + "/#code=" + Text(code, "token"))
                          : std::nullopt;
}

bool PrintClaims(const std::vector<Claim>& claims) {
  bool all = true;
  std::printf("\nChecked:\n");
  for (const Claim& claim : claims) {
    all = all && claim.held;
    std::printf("  %s %s%s%s\n",
                claim.held ? "✔" : "✕",
                claim.text.c_str(),
                claim.evidence.empty() ? "" : "  — ",
                claim.evidence.c_str());
  }
  std::fflush(stdout);
  return all;
}

// Waits for SIGINT or SIGTERM (masked in every thread), tending the daemons meanwhile.
//   finished: ends the wait, too, when `once`.
Status TendUntilEnd(Children& children,
                    Teller& teller,
                    const std::atomic<bool>& finished,
                    bool once,
                    bool& interrupted) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  while (!(once && finished)) {
    const timespec pause{0, 50'000'000};
    if (sigtimedwait(&signals, nullptr, &pause) > 0) {
      interrupted = true;
      return {};
    }
    TIDE_ASSIGN(const std::vector<std::string> news, children.Tend());
    for (const std::string& line : news) {
      teller.Say(line);
    }
  }
  return {};
}

int Complain(const Error& error, int code) {
  std::fprintf(stderr, "tide dev: %s\n", error.message.c_str());
  return code;
}

int ExitCodeOf(const Error& error) {
  if (error.code == ErrorCode::kUnavailable) {
    return kExitUnreachable;
  }
  if (error.code == ErrorCode::kInvalidArgument) {
    return kExitUsage;
  }
  return error.code == ErrorCode::kConflict ? static_cast<int>(kExitConflict)
                                            : static_cast<int>(kExitFailed);
}

int RunDev(const DevOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto workspace = Workspace::Open(options);
  if (!workspace) {
    return Complain(workspace.error(), ExitCodeOf(workspace.error()));
  }
  Teller teller;
  Introduce(*workspace);
  Children children;
  for (const ChildSpec& daemon : workspace->Daemons()) {
    if (const Status started = children.Start(daemon); !started) {
      return Complain(started.error(), kExitFailed);
    }
  }
  std::atomic<bool> stop = false;
  std::atomic<bool> finished = false;
  Demo demo(*workspace, [&](const std::string& line) { teller.Say(line); }, stop);
  std::thread greeting([&] {
    if (const auto link = SignInLink(*workspace)) {
      teller.Say("sign in, once within 10 minutes: " + *link);
    }
  });
  Status played;
  std::thread story;
  if (!options.no_demo) {
    story = std::thread([&] {
      played = demo.Play();
      if (!played && !stop) {
        teller.Say("the story broke off: " + played.error().message);
      } else if (played && !options.once) {
        teller.Say(
            "That was the story; the cluster stays up. Try: tide nodes, tide show charlm, "
            "tide faults");
      }
      finished = true;
    });
  }
  bool interrupted = false;
  const Status tended = TendUntilEnd(children, teller, finished, options.once, interrupted);
  stop = true;
  greeting.join();
  if (story.joinable()) {
    story.join();
  }
  const bool held = options.no_demo || (played && PrintClaims(demo.claims()));
  const bool clean = children.StopAll();
  if (!clean) {
    teller.Say("not every daemon ended in order; ending what they left");
  }
  const Status discarded = workspace->Discard(clean);
  if (!tended || !discarded) {
    return Complain(tended ? discarded.error() : tended.error(), kExitFailed);
  }
  if (options.once && interrupted) {
    return kExitInterrupted;
  }
  return options.once && !held ? static_cast<int>(kExitFailed) : static_cast<int>(kExitOk);
}

}  // namespace

void AddDevVerb(CLI::App& app, Context& context) {
  auto options = std::make_shared<DevOptions>();
  CLI::App* verb = app.add_subcommand("dev", "a whole cluster on this machine, with a demo");
  verb->add_option("--nodes", options->nodes, "agents to start")->check(CLI::Range(1, 64));
  verb->add_option("--schedulers", options->schedulers, "one leads, the others stand by")
      ->check(CLI::Range(1, 3));
  verb->add_option("--port", options->port, "of the API and the web page")
      ->check(CLI::Range(1, 65535));
  verb->add_option("--state", options->state_dir, "folder to keep; else a temporary one");
  verb->add_option("--runtime", options->runtime, "auto, oci or process")
      ->check(CLI::IsMember({"auto", "oci", "process"}));
  verb->add_option("--mount-root",
                   options->mount_roots,
                   "folder beneath which jobs may name paths, beside that in which this is started "
                   "and your home; may be repeated");
  verb->add_option(
      "--scheduler-flag",
      options->scheduler_flags,
      "passed on to each scheduler, as --scheduler-flag=--policy=FILE; may be repeated");
  verb->add_option("--agent-flag",
                   options->agent_flags,
                   "passed on to each agent, as --agent-flag=--image-patience=10; may be repeated")
      ->expected(1)
      ->take_all();
  verb->add_option("--api-flag",
                   options->api_flags,
                   "passed on to the API server, as --api-flag=--audit-log=FILE; may be repeated")
      ->expected(1)
      ->take_all();
  verb->add_flag("--once", options->once, "play the demo, check it, exit 0 or 1");
  verb->add_flag("--no-demo", options->no_demo, "just the cluster");
  verb->callback([options, &context] {
    if (!options->no_demo && options->nodes < 4) {
      std::fprintf(stderr, "tide dev: the demo needs 4 nodes; give --no-demo for fewer\n");
      context.exit_code = kExitUsage;
      return;
    }
    context.exit_code = RunDev(*options);
  });
}

}  // namespace tide::cli
