// tide-scheduler: owns the cluster's state and decides (ARCHITECTURE.md).

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include "common/base/exit_codes.h"
#include "common/base/file.h"
#include "common/cluster/cluster_text.h"
#include "common/log/log.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security_flags.h"
#include "scheduler/core/lease.h"
#include "scheduler/core/policy/policy_text.h"
#include "scheduler/server/admission.h"
#include "scheduler/server/loop.h"
#include "scheduler/server/people/first_admin.h"
#include "scheduler/server/people/new_store.h"
#include "scheduler/server/scheduler_service.h"
#include "scheduler/store/open_database.h"
#include "scheduler/store/people.h"
#include "scheduler/store/secrets.h"
#include "scheduler/store/store.h"
#include "scheduler/store/store_exit_code.h"

namespace tide {
namespace {

struct Options {
  std::string listen = "127.0.0.1:7071";
  std::string store;
  std::string store_file;
  rpc::SecurityOptions security;
  std::string log_format = "text";
  int64_t isolation_timeout_ms = 600'000;
  std::optional<int64_t> witness_timeout_ms;  // not set: a minute, where that makes sense
  int64_t heartbeat_ms = 1000;
  std::string cluster;           // file; "" = none
  std::string policy;            // file; "" = none
  std::string fault_policy;      // file; "" = the built-in rules alone
  std::string admit;             // "" = listed with a cluster file, any without
  std::string admin = "admin";   // the first user
  std::string admin_token_file;  // "" = no user is made
  std::string secret_key_file;   // "" = secrets are refused
  JobLimits job_limits;
  bool standby = false;
  bool init = false;
};

int Complain(const std::string& message, int code) {
  std::fprintf(stderr, "tide-scheduler: %s\n", message.c_str());
  return code;
}

Status CheckRange(const std::string& flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              flag + " " + std::to_string(value) + ": expected milliseconds from " +
                  std::to_string(least) + " to " + std::to_string(most));
}

// So many heartbeats may get lost before a task of a gang is ended.
constexpr int64_t kWitnessBeats = 10;

Status CheckWitness(const Options& options) {
  const int64_t witness_ms = options.witness_timeout_ms.value_or(0);
  const int64_t least_ms = kWitnessBeats * options.heartbeat_ms;
  if (witness_ms == 0 || (witness_ms >= least_ms && witness_ms <= options.isolation_timeout_ms)) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "--witness-timeout-ms " + std::to_string(witness_ms) +
                  ": expected 0 for none, or milliseconds from " + std::to_string(least_ms) + " (" +
                  std::to_string(kWitnessBeats) + " heartbeats) to " +
                  std::to_string(options.isolation_timeout_ms) + " (--isolation-timeout-ms)");
}

Status CheckOptions(const Options& options) {
  constexpr int64_t kMonthMs = int64_t{30} * 24 * 3600 * 1000;
  TIDE_TRY(CheckRange("--isolation-timeout-ms", options.isolation_timeout_ms, 100, kMonthMs));
  TIDE_TRY(CheckRange("--heartbeat-ms", options.heartbeat_ms, 10, 60'000));
  return CheckWitness(options);
}

Duration WitnessTimeout(const Options& options) {
  constexpr int64_t kMinuteMs = 60'000;
  return Duration::Millis(options.witness_timeout_ms.value_or(
      std::max(kMinuteMs, kWitnessBeats * options.heartbeat_ms)));
}

// For people, and like no other process's, also not that of a container of the same name: whoever
// has the name of a lease's holder need not wait until it ends.
std::string HolderName() {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return std::string(known ? host.data() : "unknown") + ":" + std::to_string(::getpid()) +
         " since " + FormatRfc3339(SystemNow());
}

Result<std::unique_ptr<Store>> OpenStore(const Options& options) {
  TIDE_ASSIGN(const std::string address, StoreAddress(options.store, options.store_file));
  TIDE_ASSIGN(auto database, OpenDatabase(address));
  return Store::Open(std::move(database), HolderName(), SystemNow());
}

// Reads the policy file over `policy`.
// Errors: those of reading; kInvalidArgument with a line for each mistake of the file.
Status ReadPolicy(const std::string& path, Policy& policy) {
  if (path.empty()) {
    return {};
  }
  TIDE_ASSIGN(const std::string text, ReadFile(path, (kPolicyMebibytesMax << 20U) + 1));
  TIDE_ASSIGN(policy, PolicyFromText(text, path, policy));
  log::Info("Policy",
            {{"File", path},
             {"Projects", policy.projects.size()},
             {"Quotas", policy.quotas.size()},
             {"Demotions", policy.demotions.size()}});
  return {};
}

// Puts the rules of the file before the built-in ones.
// Errors: those of reading; kInvalidArgument with a line for each mistake of the file.
Status ReadFaultPolicy(const std::string& path, FaultPolicy& faults) {
  if (path.empty()) {
    return {};
  }
  constexpr size_t kMostBytes = size_t{1} << 20U;
  TIDE_ASSIGN(const std::string text, ReadFile(path, kMostBytes + 1));
  TIDE_ASSIGN(faults.rules, health::FaultRulesFromText(text, path));
  log::Info("Fault policy", {{"File", path}, {"Rules", faults.rules->rules().size()}});
  return {};
}

// Who may join; the file's limits go into `policy`.
Result<Admission> ReadCluster(const Options& options, Policy& policy) {
  if (options.cluster.empty()) {
    if (options.admit == "listed") {
      return Fail(ErrorCode::kInvalidArgument,
                  "--admit listed needs the list: name the cluster file with --cluster");
    }
    return Admission();
  }
  TIDE_ASSIGN(ClusterSpec cluster, LoadClusterFile(options.cluster));
  policy.cross_zone_jobs_max = cluster.fabric.cross_zone_jobs_max;
  policy.boundaries = cluster.fabric.boundaries;
  log::Info(
      "Cluster",
      {{"Name", cluster.name}, {"Zones", cluster.zones.size()}, {"Nodes", CountNodes(cluster)}});
  return Admission(std::move(cluster),
                   options.admit == "any" ? AdmitPolicy::kAny : AdmitPolicy::kListed);
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Did SIGTERM or SIGINT, which every thread has masked, come within this time?
bool StopsWithin(Duration time) {
  const sigset_t signals = StopSignals();
  const timespec limit = {time.nanos() / 1'000'000'000, time.nanos() % 1'000'000'000};
  return sigtimedwait(&signals, nullptr, &limit) > 0;
}

// Returns how long a standby waits before it asks again whether it may lead. To find the lock
// beside a file taken costs nothing; a server pays for each connection, and a store that cannot be
// opened is held meanwhile.
Duration StandbyPause(const std::string& store, ErrorCode error) {
  const bool cheap = store.starts_with("sqlite:") && error == ErrorCode::kNotLeader;
  return cheap ? Duration::Millis(20) : Duration::Millis(200);
}

// Takes the lead; a standby as soon as it is free. Nothing = it was told to end before.
// What is wrong from the start ends a standby, too; what comes later may pass.
Result<std::unique_ptr<Store>> Lead(const Options& options) {
  std::string told;
  TIDE_ASSIGN(const std::string address, StoreAddress(options.store, options.store_file));
  while (true) {
    auto store = OpenStore(options);
    if (store || !options.standby ||
        (told.empty() && store.error().code != ErrorCode::kNotLeader)) {
      return store;
    }
    if (told.empty()) {
      log::Info("Standing by", {{"Leader", store.error().message}});
      told = "leads";
    } else if (store.error().code != ErrorCode::kNotLeader && told != store.error().message) {
      told = store.error().message;
      log::Warning("Cannot take the lead, trying again", {{"Error", told}});
    }
    if (StopsWithin(StandbyPause(address, store.error().code))) {
      return nullptr;
    }
  }
}

// Until it is told to end. A loop that hangs, in a commit say, cannot step down by itself: others
// may lead by now, and its open streams keep agents from them.
// False: the lease has not been proved for far too long.
bool ServeUntilStopped(const Loop& loop, const rpc::Security& security, SessionRegistry& sessions) {
  constexpr Duration kCheck = Duration::Millis(500);
  constexpr int64_t kMostMisses = kLeaseDuration.nanos() / kCheck.nanos();  // a machine may sleep
  int64_t misses = 0;
  uint64_t readings = security.TrustReadings();
  while (!StopsWithin(kCheck)) {
    if (const uint64_t now = security.TrustReadings(); now != readings) {
      readings = now;
      sessions.CloseAll();  // who is still believed comes back at once
    }
    misses = loop.LeaseHolds() ? 0 : misses + 1;
    if (misses > kMostMisses) {
      return false;
    }
  }
  return true;
}

// What its files say.
struct Settings {
  Policy policy;
  Admission admission;
};

Result<Settings> ReadSettings(const Options& options) {
  Settings settings;
  settings.policy.isolation_timeout = Duration::Millis(options.isolation_timeout_ms);
  settings.policy.witness_timeout = WitnessTimeout(options);
  TIDE_TRY(ReadPolicy(options.policy, settings.policy));
  TIDE_TRY(ReadFaultPolicy(options.fault_policy, settings.policy.faults));
  TIDE_ASSIGN(settings.admission, ReadCluster(options, settings.policy));
  return settings;
}

// A standby leads long after its start, by the files of the day: else a fail-over would bring back
// an old policy, and refuse the nodes that were added since.
void ReadSettingsAgain(const Options& options, Settings& settings) {
  auto today = ReadSettings(options);
  if (today) {
    settings = std::move(*today);
  } else {
    log::Warning("Policy or cluster file cannot be read, going on with it as it was at the start",
                 {{"Error", today.error().message}});
  }
}

// Null where agents are to beat on their streams: on a unix socket, and where UDP cannot be had.
std::unique_ptr<BeatPort> OpenBeatPort(const std::string& listen) {
  if (listen.starts_with("unix:")) {
    return nullptr;
  }
  auto port = BeatPort::Open(listen);
  if (!port) {
    log::Warning("No UDP port for heartbeats, agents use their streams",
                 {{"Address", listen}, {"Error", port.error().message}});
    return nullptr;
  }
  return *std::move(port);
}

Result<std::optional<SealingKey>> ReadSealingKey(const Options& options) {
  if (options.secret_key_file.empty()) {
    return std::nullopt;
  }
  TIDE_ASSIGN(SealingKey key, SealingKey::FromFile(options.secret_key_file));
  return key;
}

// What the store holds.
struct Loaded {
  ClusterState state;
  SecretVault secrets;
  StoredPeople people;
  JobTokens job_tokens;
};

Result<Loaded> LoadAll(Store& store, std::optional<SealingKey> key) {
  const int64_t began = MonotonicNanos();
  Loaded loaded;
  TIDE_ASSIGN(loaded.state, store.Load());
  TIDE_ASSIGN(std::vector<SecretRow> secrets, LoadSecrets(store.database()));
  TIDE_ASSIGN(loaded.people, LoadPeople(store.database()));
  log::Info("State loaded",
            {{"Jobs", loaded.state.jobs.size()},
             {"Nodes", loaded.state.nodes.size()},
             {"Secrets", secrets.size()},
             {"Users", loaded.people.directory.users().size()},
             {"Ms", (MonotonicNanos() - began) / 1'000'000}});
  if (key) {
    loaded.job_tokens = JobTokens(*key, store.cluster_id());
  }
  loaded.secrets = SecretVault(std::move(key), std::move(secrets));
  return loaded;
}

// Takes agents and the API on until it is told to end.
int Listen(const Options& options,
           const rpc::Security& security,
           const Settings& settings,
           std::unique_ptr<Store> store,
           Loaded loaded) {
  LivenessPolicy liveness;
  liveness.heartbeat = Duration::Millis(options.heartbeat_ms);

  ViewHub view(ProjectsWithoutExec(settings.policy), loaded.job_tokens);
  SessionRegistry sessions;
  Loop loop(std::move(store),
            std::move(loaded.state),
            {.policy = settings.policy,
             .liveness = liveness,
             .secrets = std::move(loaded.secrets),
             .people = std::move(loaded.people),
             .job_tokens = std::move(loaded.job_tokens),
             .job_limits = options.job_limits},
            view,
            sessions);
  loop.Start();
  if (const Status begun = BeginWithAdmin(loop, options.admin, options.admin_token_file); !begun) {
    return Complain(begun.error().message, kExitUsage);
  }
  const auto scheduler_service =
      MakeSchedulerService(loop, view, security, [&options]() -> Result<std::unique_ptr<Database>> {
        TIDE_ASSIGN(const std::string address, StoreAddress(options.store, options.store_file));
        return OpenDatabaseToRead(address);
      });
  const auto agent_service =
      MakeAgentLinkService(loop,
                           view,
                           sessions,
                           settings.admission,
                           {security, liveness.heartbeat, OpenBeatPort(options.listen)});

  grpc::ServerBuilder builder;
  security.Listen(builder, options.listen);
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.RegisterService(scheduler_service.get());
  builder.RegisterService(agent_service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) {
    return Complain("cannot listen on " + options.listen +
                        ": in use, or not allowed; choose another with --listen",
                    kExitUnreachable);
  }
  log::Info("Serving", {{"Address", options.listen}, {"Term", loop.term().value()}});
  if (!ServeUntilStopped(loop, security, sessions)) {
    log::Failure("The lease could not be renewed in time, stopping");
    std::_Exit(kExitCommitFailed);
  }
  log::Info("Stopping");
  sessions.CloseAll();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  loop.Stop();
  return kExitOk;
}

// Only makes the store.
int Init(const Options& options) {
  const auto made = [&]() -> Status {
    TIDE_ASSIGN(const std::string address, StoreAddress(options.store, options.store_file));
    return MakeStore({address, HolderName(), options.admin, options.admin_token_file});
  }();
  return made ? static_cast<int>(kExitOk)
              : Complain(made.error().message, StoreExitCode(made.error(), kExitStore));
}

int Serve(const Options& options) {
  if (const Status sound = CheckOptions(options); !sound) {
    return Complain(sound.error().message, kExitUsage);
  }
  const auto security = rpc::Security::FromOptions(
      options.security, {rpc::Role::kScheduler, ""}, std::array{options.listen});
  if (!security) {
    return Complain(security.error().message, kExitUsage);
  }
  auto key = ReadSealingKey(options);
  if (!key) {
    return Complain(key.error().message, kExitUsage);
  }
  auto settings = ReadSettings(options);
  if (!settings) {
    return Complain(settings.error().message, kExitUsage);
  }
  auto store = Lead(options);
  if (store && !*store) {
    return kExitOk;
  }
  if (!store) {
    return Complain(store.error().message, StoreExitCode(store.error(), kExitStore));
  }
  log::Info("Store",
            {{"Database", (*store)->database().Name()}, {"Cluster", (*store)->cluster_id()}});
  if (options.standby) {
    ReadSettingsAgain(options, *settings);
  }
  auto loaded = LoadAll(**store, *std::move(key));
  if (!loaded) {
    return Complain(loaded.error().message, StoreExitCode(loaded.error(), kExitStore));
  }
  if (loaded->state.share_half_life != settings->policy.share_half_life) {
    loaded->state.share_half_life = settings->policy.share_half_life;
    RebuildDerived(loaded->state);  // what owners used lately, by the policy's half-life
  }
  return Listen(options, *security, *settings, std::move(*store), *std::move(loaded));
}

}  // namespace
}  // namespace tide

int main(int argc, char** argv) {
  tide::Options options;
  CLI::App app("Tide's scheduler: owns the cluster's state and decides.", "tide-scheduler");
  app.add_option("--listen", options.listen, "unix:/path or host:port");
  auto* where = app.add_option_group("store", "where the state lives: one of these");
  where->add_option("--store", options.store, "sqlite:/path/to/tide.db or postgres://…");
  where->add_option("--store-file", options.store_file, "file of mode 600 with that address");
  where->require_option(1);
  tide::rpc::AddSecurityFlags(app, options.security);
  app.add_option("--admin", options.admin, "name of the first user")->capture_default_str();
  app.add_option("--admin-token-file",
                 options.admin_token_file,
                 "where there is no user yet: file of mode 600 with the token of the first, who is "
                 "an admin; written where it is not there");
  app.add_option("--secret-key-file",
                 options.secret_key_file,
                 "file of mode 600, at least 32 random bytes, that seals users' secrets");
  app.add_option("--user-jobs",
                 options.job_limits.of_user,
                 "jobs of one user that have not finished, elements of arrays included")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--project-jobs", options.job_limits.of_project, "the same of one project")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--isolation-timeout-ms",
                 options.isolation_timeout_ms,
                 "agents that are cut off stop their tasks after this");
  app.add_option("--witness-timeout-ms",
                 options.witness_timeout_ms,
                 "the same for tasks of gangs without a witness; 60000, 0 = as others");
  app.add_option("--heartbeat-ms", options.heartbeat_ms, "interval of agents' heartbeats");
  app.add_option("--cluster", options.cluster, "cluster file: groups, zones, leaves, nodes");
  app.add_option(
      "--policy", options.policy, "policy file: projects, quotas, demotions, retention, sharing");
  app.add_option("--fault-policy",
                 options.fault_policy,
                 "rules about faults that come before the built-in ones");
  app.add_option("--admit", options.admit, "who may join: listed (in the cluster file) or any")
      ->check(CLI::IsMember({"listed", "any"}));
  auto* standby = app.add_flag(
      "--standby", options.standby, "wait while another scheduler leads, then take over");
  app.add_flag("--init",
               options.init,
               "make the store of a new cluster, and its first admin where --admin-token-file is "
               "given, then end; refused where a store is")
      ->excludes(standby);
  app.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tide::kExitOk : tide::kExitUsage;
  }
  tide::log::Init(
      "scheduler",
      options.log_format == "json" ? tide::log::Format::kJson : tide::log::Format::kText,
      tide::log::Level::kInfo);
  tide::rpc::ReadInSmallPieces();
  const sigset_t signals = tide::StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return options.init ? tide::Init(options) : tide::Serve(options);
}
