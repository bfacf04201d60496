// tide-agent: starts containers on one node, watches them and the hardware (ARCHITECTURE.md).

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

#include "agent/runtime/detect.h"
#include "agent/runtime/leftovers.h"
#include "agent/runtime/port_guard.h"
#include "agent/runtime/supervised_runtime.h"
#include "agent/server/access_service.h"
#include "agent/server/agent_loop.h"
#include "agent/server/claim.h"
#include "agent/server/image_service.h"
#include "agent/server/peer_service.h"
#include "agent/server/start_plan.h"
#include "common/base/disk_use.h"
#include "common/base/exit_codes.h"
#include "common/base/file.h"
#include "common/log/log.h"
#include "common/rpc/security_flags.h"

namespace tide::agent {
namespace {

struct Options {
  AgentConfig config;
  std::string runtime = "auto";
  std::string rank_affinity = "numa";
  std::string gpu_check = "on";
  std::string job_user;
  std::string uid_pool;
  bool join = false;
  std::vector<Fd> claim;  // of its folder and name, for as long as it runs
  std::string ports;
  std::vector<std::string> env;
  rpc::SecurityOptions security;
  std::string log_format = "text";
  int64_t log_retention_s = int64_t{14} * 24 * 3600;
  std::string clean;
  uint32_t image_patience_s = 300;
  uint32_t stuck_after_s = 30;
};

int Complain(const std::string& message, int code) {
  std::fprintf(stderr, "tide-agent: %s\n", message.c_str());
  return code;
}

std::string FolderOfThisProgram() {
  std::string path(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return path.substr(0, path.rfind('/'));
}

// "200000-265535"; nothing where there is none.
Result<std::optional<UidPool>> ReadUidPool(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  UidPool pool;
  int end = 0;
  if (std::sscanf(text.c_str(), "%u-%u%n", &pool.low, &pool.high, &end) != 2 ||
      static_cast<size_t>(end) != text.size() || pool.low < kLeastUid || pool.high <= pool.low) {
    return Fail(ErrorCode::kInvalidArgument,
                "--uid-pool " + text +
                    " is not of the form LOW-HIGH, from 1000 on, such as "
                    "200000-265535");
  }
  return pool;
}

// "1000:1000"; an agent that is not root runs jobs as itself.
Status ResolveJobUser(Options& options) {
  AgentConfig& config = options.config;
  if (options.job_user.empty() && ::geteuid() != 0) {
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no thread yet
    config.identities = std::make_shared<Identities>(
        Owner{::geteuid(), ::getegid(), {}, home == nullptr ? "" : home});
    log::Info("Jobs run as this agent's own user, which separates nobody's from another's");
    return {};
  }
  if (options.job_user.empty()) {
    TIDE_ASSIGN(const std::optional<UidPool> pool, ReadUidPool(options.uid_pool));
    config.identities = std::make_shared<Identities>(pool);
    return {};
  }
  if (!options.uid_pool.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--uid-pool has users of their own, --job-user one for all: give one of them");
  }
  Owner everybody;
  int end = 0;
  if (std::sscanf(options.job_user.c_str(), "%u:%u%n", &everybody.uid, &everybody.gid, &end) != 2 ||
      static_cast<size_t>(end) != options.job_user.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--job-user " + options.job_user + " is not of the form UID:GID");
  }
  if (::geteuid() != 0 && everybody.uid != ::geteuid()) {
    return Fail(ErrorCode::kInvalidArgument, "--job-user needs root");
  }
  if (::geteuid() == 0 && everybody.uid < kLeastUid) {
    return Fail(ErrorCode::kInvalidArgument,
                "--job-user " + options.job_user + ": jobs run as people, whose uids begin at " +
                    std::to_string(kLeastUid));
  }
  config.identities = std::make_shared<Identities>(std::move(everybody));
  return {};
}

// Folders that are not there yet may come, but a mistyped one should not go unnoticed.
Status ResolveMountRoots(const AgentConfig& config) {
  for (const std::string& root : config.mount_roots) {
    if (!root.starts_with('/')) {
      return Fail(ErrorCode::kInvalidArgument, "--mount-root " + root + " is not an absolute path");
    }
    if (::access(root.c_str(), F_OK) != 0) {
      log::Warning("A mount root is not there", {{"Folder", root}});
    }
  }
  return {};
}

Status ResolveRuntime(Options& options) {
  AgentConfig& config = options.config;
  if (options.runtime == "process") {
    config.runtime = RuntimeKind::kProcess;
    return {};
  }
  const bool any = options.runtime == "auto" || options.runtime == "oci";
  const auto programs = OciPrograms(any ? "" : options.runtime);
  if (!any && programs.empty()) {
    return Fail(ErrorCode::kConflict,
                "--runtime " + options.runtime +
                    ": it is not installed; install it, or choose "
                    "--runtime oci, which takes runc or crun");
  }
  const Detection detection = DetectRuntime(config.state_dir, config.init_path, programs);
  if (options.runtime != "auto" && detection.best != RuntimeKind::kOci) {
    return Fail(ErrorCode::kConflict,
                "containers are not possible here: " + detection.why_not_oci +
                    (any ? "" : "; --runtime oci takes the one of runc and crun that works"));
  }
  config.runtime = detection.best;
  config.runtime_path = detection.runtime_path;
  log::Info("Runtime chosen",
            {{"Runtime", RuntimeKindName(detection.best)}, {"Detail", Describe(detection)}});
  return {};
}

Status ResolvePorts(Options& options) {
  AgentConfig& config = options.config;
  if (options.ports.empty()) {
    return {};
  }
  constexpr uint32_t kMost = 65535;
  const int read = std::sscanf(options.ports.c_str(), "%u-%u", &config.port_low, &config.port_high);
  if (read != 2 || config.port_low == 0 || config.port_low > config.port_high ||
      config.port_high > kMost) {
    return Fail(ErrorCode::kInvalidArgument,
                "--ports " + options.ports + " is not of the form LOW-HIGH, of ports up to 65535");
  }
  return {};
}

// Warns of ports that Linux gives, from its own range, to whoever asks for none, or connects.
void WarnOfCommonPorts(const AgentConfig& config) {
  std::istringstream range(ReadFile("/proc/sys/net/ipv4/ip_local_port_range", 256).value_or(""));
  uint32_t low = 0;
  uint32_t high = 0;
  if (range >> low >> high && config.port_low <= high && low <= config.port_high) {
    log::Warning(
        "Connections of any process may take ports of --ports; choose others, or change "
        "net.ipv4.ip_local_port_range",
        {{"Ports", fmt::format("{}-{}", config.port_low, config.port_high)},
         {"Linux", fmt::format("{}-{}", low, high)}});
  }
}

// Only containers have a cgroup of their own. Without the guard one job of a shared node can keep
// the others from starting there.
void GuardPortsWherePossible(AgentConfig& config) {
  if (config.runtime != RuntimeKind::kOci || config.port_low == 0) {
    return;
  }
  WarnOfCommonPorts(config);
  const Status can = CanGuardPorts();
  config.guards_ports = can.has_value();
  if (!can) {
    log::Warning(
        "Jobs that share this node can take each other's ports",
        {{"Ports", std::to_string(config.port_low) + "-" + std::to_string(config.port_high)},
         {"Reason", can.error().message}});
  }
}

Status ResolveLogs(Options& options) {
  AgentConfig& config = options.config;
  // Less would be deleted while it is being read.
  constexpr uint64_t kLeast = 1U << 20U;
  if (config.log_bytes_per_rank != 0 && config.log_bytes_per_rank < kLeast) {
    return Fail(ErrorCode::kInvalidArgument, "--log-bytes-per-rank is 0 or at least 1M");
  }
  constexpr int64_t kMost = int64_t{100} * 365 * 24 * 3600;
  if (options.log_retention_s < 0 || options.log_retention_s > kMost) {
    return Fail(ErrorCode::kInvalidArgument, "--log-retention is 0 (for ever) to 36500d");
  }
  config.log_retention = Duration::Seconds(options.log_retention_s);
  return {};
}

Status Resolve(Options& options) {
  AgentConfig& config = options.config;
  const std::string here = FolderOfThisProgram();
  if (config.init_path.empty()) {
    config.init_path = here + "/tide-init";
  }
  if (config.validator_dir.empty()) {
    config.validator_dir = here;
  }
  config.checks_gpus = options.gpu_check == "on";
  if (config.observer.empty()) {
    config.observer = here + "/tide-observer";
  }
  if (config.run_root.empty()) {
    config.run_root = "/dev/shm/tide-" + std::to_string(::geteuid());
  }
  if (config.checkpoint_root.empty()) {
    config.checkpoint_root = config.state_dir + "/checkpoints";
  }
  TIDE_TRY(ResolvePorts(options));
  for (const std::string& pair : options.env) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(ErrorCode::kInvalidArgument, "--env " + pair + " is not of the form KEY=VALUE");
    }
    config.env[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  config.stuck_after = Duration::Seconds(options.stuck_after_s);
  config.image_patience = Duration::Seconds(options.image_patience_s);
  config.numa_affinity = options.rank_affinity == "numa";
  TIDE_TRY(ResolveLogs(options));
  TIDE_TRY(ResolveJobUser(options));
  TIDE_TRY(ResolveMountRoots(config));
  TIDE_ASSIGN(options.claim, ClaimNode(config));
  TIDE_ASSIGN(Membership membership, Membership::Open(config.state_dir, options.join));
  config.membership = std::make_shared<Membership>(std::move(membership));
  TIDE_TRY(ResolveRuntime(options));
  GuardPortsWherePossible(config);
  return {};
}

// Blocks until SIGTERM or SIGINT, which every thread has masked.
void WaitForSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  int received = 0;
  sigwait(&signals, &received);
}

std::string WhyNoImagesHere(const AgentConfig& config) {
  return config.runtime == RuntimeKind::kOci ? WhyNoImages() : "it runs plain processes";
}

// Returns half of the disk, unless the site says otherwise.
uint64_t UserImageBytes(const AgentConfig& config, const std::string& folder) {
  const uint64_t half = SpaceAt(folder).all / 2;
  const uint64_t usual = half != 0 ? half : UINT64_MAX;  // the file system does not know its size
  return config.user_image_bytes != 0 ? config.user_image_bytes : usual;
}

// Returns null where this node has none, and logs why.
Result<std::unique_ptr<ImageFetcher>> OpenImages(const AgentConfig& config) {
  if (config.runtime != RuntimeKind::kOci) {
    return nullptr;
  }
  if (const std::string why = WhyNoImages(); !why.empty()) {
    log::Warning("Jobs with an image of their own cannot run here", {{"Reason", why}});
    return nullptr;
  }
  const std::string folder =
      config.image_dir.empty() ? config.state_dir + "/images" : config.image_dir;
  TIDE_TRY(MakeDirs(folder, 0700));
  TIDE_ASSIGN(PathRules rules, RulesOf(config));
  return ImageFetcher::Open(
      {.folder = folder,
       .registry = config.registry,
       .auth_file = config.image_auth,
       .plain_http = config.plain_http,
       .bytes_max = config.image_bytes,
       .user_bytes_max = UserImageBytes(config, folder),
       .patience = config.image_patience,
       .rules = std::move(rules),
       .node = config.name,
       .in_use = [state_dir = config.state_dir] { return ImagesInUse(state_dir); }});
}

// Runs until a signal. The order of ends matters: link and server call into the loop.
int Serve(AgentConfig config,
          const std::vector<std::string>& schedulers,
          const rpc::Security& security) {
  auto runtime = SupervisedRuntime::Open(config.state_dir);
  if (!runtime) {
    return Complain(runtime.error().message, kExitFailed);
  }
  auto faults =
      FaultSpool::Open(config.state_dir, config.kmsg, config.checks_gpus ? config.gpus : 0);
  if (!faults) {
    return Complain(faults.error().message, kExitFailed);
  }
  auto images = OpenImages(config);
  if (!images) {
    return Complain(images.error().message, kExitFailed);
  }
  ImageFetcher* const image_fetcher = images->get();  // the loop's, which outlives the server
  TaskBook book;
  AgentLoop loop(
      config, security, std::move(*runtime), std::move(*faults), book, std::move(*images));
  if (const Status adopted = loop.Adopt(); !adopted) {
    return Complain(adopted.error().message, kExitFailed);
  }
  const auto service =
      MakePeerService({book,
                       security,
                       config.state_dir,
                       [&loop](const tide::agent::TaskId& id, int64_t deadline) {
                         return loop.SignalTask(id, deadline);
                       },
                       [&loop](const std::string& key) { return loop.IsOver(key); },
                       [&loop](const tide::agent::TaskId& id, int64_t submitted_at) {
                         return loop.IsAlive(id, submitted_at);
                       }});
  const auto access = MakeAccessService(
      {security, config.state_dir, [&loop](const std::string& key) { return loop.IsOver(key); }});
  const auto image_service = MakeImageService(
      {security, image_fetcher, image_fetcher == nullptr ? WhyNoImagesHere(config) : ""});
  grpc::ServerBuilder builder;
  security.Listen(builder, config.listen);
  builder.RegisterService(service.get());
  builder.RegisterService(access.get());
  builder.RegisterService(image_service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) {
    return Complain("cannot listen on " + config.listen +
                        ": in use, or not allowed; choose another with --listen",
                    kExitUnreachable);
  }
  Link link(schedulers,
            security,
            {[&loop](uint64_t stream) { loop.Post([&loop, stream] { loop.OnStream(stream); }); },
             [&loop](uint64_t stream, tide::v1::SchedulerMessage message) {
               loop.Post([&loop, stream, message = std::move(message)] {
                 loop.OnMessage(stream, message);
               });
             },
             [&loop](uint64_t stream) { loop.Post([&loop, stream] { loop.OnLost(stream); }); }});
  loop.SetLink(&link);
  std::thread waiter([&] {
    WaitForSignal();
    log::Info("Stopping", {{"Node", config.name}});
    loop.Stop(config.stop_tasks_on_exit);
  });
  link.Start();
  log::Info("Serving", {{"Node", config.name}, {"Address", config.listen}});
  loop.Run();
  waiter.join();
  link.Stop();
  server->Shutdown(std::chrono::system_clock::now());
  return kExitOk;
}

void AddImageOptions(CLI::App& app, Options& options) {
  AgentConfig& config = options.config;
  app.add_option("--image-dir", config.image_dir, "store of images; default: images in --state");
  app.add_option("--image-registry", config.registry, "registry of images that name none")
      ->capture_default_str();
  app.add_option("--image-auth", config.image_auth, "logins of registries, as skopeo login writes");
  app.add_option("--image-plain-http",
                 config.plain_http,
                 "HOST:PORT of a registry without TLS; may be repeated");
  app.add_option(
         "--image-bytes", config.image_bytes, "keep at most so much of unused images (200G)")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("200G");
  app.add_option("--user-image-bytes",
                 config.user_image_bytes,
                 "most that images of one user's tasks may hold, unpacked (100G); 0 = half of "
                 "the disk")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--image-patience",
                 options.image_patience_s,
                 "seconds to wait for a registry that does not answer")
      ->capture_default_str();
}

void AddDiskOptions(CLI::App& app, Options& options) {
  AgentConfig& config = options.config;
  app.add_option("--user-scratch",
                 config.user_scratch_bytes,
                 "bytes that the scratch folders of one user's tasks may hold (500G); 0 = half of "
                 "the disk")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--log-bytes-per-rank",
                 config.log_bytes_per_rank,
                 "output kept of each rank of a task, the newest (8G, 500M); 0 = all")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4G");
  app.add_option("--log-bytes-total",
                 config.log_bytes_total,
                 "output kept of all tasks that are gone, the oldest goes first; 0 = any")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--log-retention",
                 options.log_retention_s,
                 "how long output of tasks that are gone is kept (14d, 12h); 0 = for ever")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, int64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}))
      ->default_str("14d");
}

void AddIdentityOptions(CLI::App& app, Options& options) {
  AgentConfig& config = options.config;
  app.add_option("--job-user",
                 options.job_user,
                 "UID:GID of everybody's jobs; default as root: the account of the job's user, by "
                 "its record in Tide or its name, and this user else");
  app.add_option("--uid-pool",
                 options.uid_pool,
                 "LOW-HIGH: uids for users without an account, one each, such as 200000-265535");
  app.add_option("--mount-root",
                 config.mount_roots,
                 "folder beneath which jobs may name a workdir, a checkpoint.dir or mounts, beside "
                 "their owners' homes; may be repeated");
  app.add_option(
      "--masked-path",
      config.masked,
      "folder that jobs neither see nor may name, beside the agent's own; may be repeated");
}

void AddGpuOptions(CLI::App& app, Options& options) {
  AgentConfig& config = options.config;
  app.add_option("--gpus", config.gpus, "GPUs of this node");
  app.add_option("--gpu-model", config.gpu_model, "their model");
  app.add_option(
         "--gpu-check",
         options.gpu_check,
         "on: the node leaves service where fewer GPUs than --gpus are found, or one is not "
         "well; off: nobody looks")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--nvml", config.nvml, "NVIDIA's management library, by which GPUs are read")
      ->capture_default_str();
  app.add_option("--cdi-dir",
                 config.cdi_dirs,
                 "folder of CDI files; may be repeated, the last goes before the others")
      ->default_str("/etc/cdi /var/run/cdi");
  app.add_option("--cdi-kind", config.cdi_kind, "how CDI files call the GPUs")
      ->default_str("nvidia.com/gpu");
}

void AddOptions(CLI::App& app, Options& options) {
  AgentConfig& config = options.config;
  app.add_option("--clean",
                 options.clean,
                 "end every task that the agent of this state folder left running, and exit");
  app.add_option("--scheduler", config.scheduler, "unix:/path or host:port; several as a,b");
  app.add_option("--name", config.name, "this node's name");
  app.add_flag("--join",
               options.join,
               "join the cluster of --scheduler though this agent belongs to another");
  app.add_option("--state", config.state_dir, "folder for journal and logs");
  app.add_option("--listen", config.listen, "unix:/path or host:port, for peers and the API");
  app.add_option("--address", config.address, "where other nodes reach rank 0 on this node")
      ->default_val("127.0.0.1");
  app.add_option("--group", config.group, "hardware pool");
  app.add_option("--zone", config.zone, "network zone");
  app.add_option("--leaf", config.leaf, "leaf switch");
  app.add_option(
         "--stuck-after",
         options.stuck_after_s,
         "seconds after SIGKILL until a task that does not die counts as stuck in the kernel")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--ports", options.ports, "ports kept for MASTER_PORT")
      ->default_val("20000-20999");
  app.add_option("--run-root", config.run_root, "tmpfs folder for pages and rank sockets");
  app.add_option("--checkpoint-root",
                 config.checkpoint_root,
                 "shared folder for jobs that name none of their own");
  app.add_option("--sdk-dir", config.sdk_dir, "Tide's SDK, put on PYTHONPATH");
  app.add_option("--init", config.init_path, "tide-init");
  app.add_option("--validators", config.validator_dir, "folder of tide-validator-*");
  app.add_option("--kmsg", config.kmsg, "kernel log: /dev/kmsg or a file; \"\" = none")
      ->default_val(::geteuid() == 0 ? "/dev/kmsg" : "");
  app.add_option("--sysfs-root", config.sys_dir, "instead of /sys, to see ports and GPUs");
  app.add_option("--observer", config.observer, "tide-observer");
  app.add_flag("!--no-ports", config.watches_ports, "network ports are not watched");
  app.add_option("--env", options.env, "KEY=VALUE for every rank (network profile)");
  app.add_option("--rank-affinity",
                 options.rank_affinity,
                 "numa: ranks run on the CPUs next to their GPUs; none: on any")
      ->check(CLI::IsMember({"numa", "none"}))
      ->capture_default_str();
  app.add_flag("--compat-env",
               config.compat_env,
               "ranks also get MARSV2_SCHEDULE_ZONE and MARSV2_ROOM, as on the HAI Platform");
  app.add_option("--runtime",
                 options.runtime,
                 "auto, oci (runc or crun, whichever works), runc, crun or process")
      ->check(CLI::IsMember({"auto", "oci", "runc", "crun", "process"}));
  rpc::AddSecurityFlags(app, options.security);
  app.add_flag("--stop-tasks-on-exit",
               config.stop_tasks_on_exit,
               "end all tasks on SIGTERM, instead of leaving them to the next agent");
  app.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Tide's agent: runs tasks on one node.", "tide-agent");
  AddOptions(app, options);
  AddGpuOptions(app, options);
  AddIdentityOptions(app, options);
  AddImageOptions(app, options);
  AddDiskOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  log::Init("agent",
            options.log_format == "json" ? log::Format::kJson : log::Format::kText,
            log::Level::kInfo);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (!options.clean.empty()) {
    const auto cleaned = CleanLeftovers(options.clean);
    return cleaned ? kExitOk : Complain(cleaned.error().message, kExitFailed);
  }
  const AgentConfig& config = options.config;
  if (config.scheduler.empty() || config.name.empty() || config.state_dir.empty() ||
      config.listen.empty()) {
    return Complain("--scheduler, --name, --state and --listen are required; see --help",
                    kExitUsage);
  }
  if (const Status resolved = Resolve(options); !resolved) {
    return Complain(resolved.error().message, kExitUsage);
  }
  const auto schedulers = rpc::SplitAddresses(options.config.scheduler);
  if (!schedulers) {
    return Complain("--scheduler " + schedulers.error().message, kExitUsage);
  }
  std::vector<std::string> addresses = *schedulers;
  addresses.push_back(config.listen);
  const auto security =
      rpc::Security::FromOptions(options.security, {rpc::Role::kAgent, config.name}, addresses);
  if (!security) {
    return Complain(security.error().message, kExitUsage);
  }
  return Serve(options.config, *schedulers, *security);
}

}  // namespace
}  // namespace tide::agent

int main(int argc, char** argv) {
  return tide::agent::Main(argc, argv);
}
