#include "api/testing/harness.h"

#include <httplib.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "api/http/server.h"
#include "api/upstream/grpc_upstream.h"
#include "api/upstream/images.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/digest/sha256.h"

namespace tide::api::testing {
namespace {

// Longer than any machine needs; a test that waits this long has failed.
constexpr auto kPatience = std::chrono::seconds(10);

httplib::Headers ToHeaders(const HeaderList& headers) {
  return {headers.begin(), headers.end()};
}

Answer ToAnswer(const httplib::Result& result) {
  Answer answer;
  if (!result) {
    return answer;
  }
  answer.status = result->status;
  answer.body = result->body;
  for (const auto& [key, value] : result->headers) {
    std::string name = key;
    std::ranges::transform(
        name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    answer.headers[name] = value;
  }
  return answer;
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tide-api-XXXXXX").string();
  TIDE_CHECK(::mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
  path_ = name;
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

OpenStream::OpenStream(int port,
                       std::string path,
                       std::optional<std::string> body,
                       HeaderList headers) {
  const auto client = std::make_shared<httplib::Client>("127.0.0.1", port);
  client->set_read_timeout(kPatience);
  hang_up_ = [client] { client->stop(); };
  httplib::Request request;
  request.method = body ? "POST" : "GET";
  request.path = std::move(path);
  request.body = body.value_or("");
  request.headers = ToHeaders(headers);
  request.content_receiver = [this](const char* data, size_t size, uint64_t, uint64_t) {
    const std::scoped_lock lock(mutex_);
    text_.append(data, size);
    changed_.notify_all();
    return !abandoned_;
  };
  thread_ = std::thread([this, client, request = std::move(request)] {
    client->send(request);
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
}

OpenStream::~OpenStream() {
  {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
  }
  hang_up_();
  thread_.join();
}

std::string OpenStream::WaitFor(const std::string& wanted) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return text_.find(wanted) != std::string::npos; });
  return text_;
}

std::string OpenStream::WaitForEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [this] { return ended_; });
  return ended_ ? text_ : text_ + "(not ended)";
}

struct Harness::Parts {
  Parts(const Options& options, const std::string& scheduler_address)
      : schedulers(AddressesOf(options, scheduler_address), rpc::ClusterToken("cluster-secret")),
        store(options.stale_after),
        streams(options.max_streams, options.user_streams),
        scheduler(MakeGrpcScheduler(schedulers, rpc::ClusterToken("cluster-secret"))),
        agents(MakeGrpcAgents(rpc::ClusterToken("cluster-secret"))),
        images(MakeGrpcImages(rpc::ClusterToken("cluster-secret"))),
        auth(store, *scheduler, options.tell_every),
        app{store, *scheduler, *agents, *images, auth, streams},
        watcher(schedulers, rpc::ClusterToken("cluster-secret"), store) {
    app.stream_merge = std::chrono::milliseconds(1);
    app.stream_heartbeat = std::chrono::milliseconds(50);
    if (options.requests != nullptr) {
      app.requests = options.requests;
    }
    if (options.allowances != nullptr) {
      app.allowances = options.allowances;
    }
    if (options.proxies != nullptr) {
      app.proxies = options.proxies;
    }
    ServerOptions server_options;
    server_options.port = 0;
    server_options.max_streams = options.max_streams;
    server = std::make_unique<Server>(server_options, AllRoutes(app), app);
    const auto listening = server->Listen();
    TIDE_CHECK(listening.has_value(), "a free port exists");
    port = *listening;
    thread = std::thread([this] { server->Run(); });
  }
  ~Parts() {
    store.Stop();
    // Stop() before Run() has begun would be lost; an answer shows that it runs.
    httplib::Client("127.0.0.1", port).Get("/healthz");
    server->Stop();
    thread.join();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  static std::vector<std::string> AddressesOf(const Options& options, const std::string& own) {
    std::vector<std::string> addresses = options.other_schedulers;
    addresses.push_back(own);
    return addresses;
  }

  Schedulers schedulers;
  ViewStore store;
  StreamSlots streams;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Agents> agents;
  std::unique_ptr<NodeImages> images;
  Authenticator auth;
  App app;
  Watcher watcher;
  std::unique_ptr<Server> server;
  int port = 0;
  std::thread thread;
};

Harness::Harness(const Options& options) : upstream(folder.path()) {
  if (!options.start_scheduler) {
    upstream.KillScheduler();
  }
  parts_ = std::make_unique<Parts>(options, upstream.scheduler_address());
  if (options.start_scheduler) {
    Show({});
  }
}
Harness::~Harness() = default;

HeaderList Harness::WithToken(HeaderList headers) const {
  if (!token.empty()) {
    headers.emplace("Authorization", "Bearer " + token);
  }
  return headers;
}

Answer Harness::Get(const std::string& path, HeaderList headers) {
  httplib::Client client("127.0.0.1", parts_->port);
  return ToAnswer(client.Get(path, ToHeaders(WithToken(std::move(headers)))));
}

Answer Harness::Post(const std::string& path, const std::string& body, HeaderList headers) {
  httplib::Client client("127.0.0.1", parts_->port);
  return ToAnswer(
      client.Post(path, ToHeaders(WithToken(std::move(headers))), body, "application/json"));
}

Answer Harness::Call(const std::string& method,
                     const std::string& path,
                     const std::string& body,
                     HeaderList headers) {
  httplib::Client client("127.0.0.1", parts_->port);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  request.headers = ToHeaders(WithToken(std::move(headers)));
  return ToAnswer(client.send(request));
}

std::unique_ptr<OpenStream> Harness::Open(const std::string& path, HeaderList headers) {
  return std::make_unique<OpenStream>(
      parts_->port, path, std::nullopt, WithToken(std::move(headers)));
}

std::unique_ptr<OpenStream> Harness::OpenPost(const std::string& path, const std::string& body) {
  return std::make_unique<OpenStream>(
      parts_->port, path, body, WithToken({{"Content-Type", "application/json"}}));
}

void Harness::Show(const std::vector<v1::Job>& jobs,
                   const std::vector<v1::Node>& nodes,
                   const std::vector<v1::Incident>& incidents) {
  const uint64_t rev = upstream.scheduler.Publish(jobs, nodes, incidents);
  TIDE_CHECK(parts_->store.WaitForRev(rev, kPatience), "a published view arrives");
}

ViewStore& Harness::store() {
  return parts_->store;
}
Routes Harness::routes() {
  return AllRoutes(parts_->app);
}

v1::Job RunningJob(uint64_t id, const std::string& name, const std::string& user) {
  v1::Job job;
  job.set_id(id);
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->add_command("true");
  job.mutable_spec()->set_nodes(1);
  job.mutable_spec()->set_ranks_per_node(1);
  job.mutable_spec()->set_priority(10);
  job.set_user(user);
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_step(-1);
  job.set_total_steps(-1);
  job.set_loss(std::numeric_limits<double>::quiet_NaN());
  return job;
}

v1::Node ReadyNode(const std::string& name, const std::string& endpoint) {
  v1::Node node;
  node.set_name(name);
  node.set_zone("A");
  node.set_state(v1::NODE_STATE_READY);
  node.set_endpoint(endpoint);
  return node;
}

v1::Attempt& AddAttempt(v1::Job& job, uint64_t epoch, const std::vector<std::string>& nodes) {
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_epoch(epoch);
  attempt.set_stop_step(-1);
  attempt.set_start_reason(epoch == 1 ? "first" : "resumed");
  for (const std::string& node : nodes) {
    v1::Task& task = *attempt.add_tasks();
    task.set_index(static_cast<uint32_t>(attempt.tasks_size() - 1));
    task.set_node(node);
    task.set_state(v1::TASK_STATE_RUNNING);
  }
  return attempt;
}

}  // namespace tide::api::testing
