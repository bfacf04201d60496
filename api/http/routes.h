#pragma once
// The table of routes. Each function below gives the rows of one file.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/alerts/counters.h"
#include "api/gate/counters.h"
#include "api/gate/server_tls.h"
#include "api/http/limits.h"
#include "api/http/message.h"
#include "api/http/proxies.h"
#include "api/upstream/upstream.h"
#include "api/view/read_fences.h"
#include "api/view/view.h"

namespace tide::api {

// The operation of a route in the table of permissions; nothing: anybody may, without a sign-in.
// How the caller stands to the job of a route is looked at by NeedJob and FindElements.
using Access = std::optional<Operation>;
inline constexpr Access kOpen = std::nullopt;

struct Route {
  std::string method;   // GET, POST, PUT, PATCH, DELETE
  std::string pattern;  // "/v1/jobs/{ref}"
  Access access;        // no default: a route without one does not compile
  Handler handler;
};
using Routes = std::vector<Route>;

class ExecSessions;
class NodeImages;

// What the routes work with. Everything outlives the server.
struct App {
  ViewStore& store;
  Scheduler& scheduler;
  Agents& agents;
  NodeImages& images;
  Authenticator& auth;
  StreamSlots& streams;
  std::chrono::milliseconds stream_merge = std::chrono::milliseconds(250);
  std::chrono::milliseconds stream_heartbeat = std::chrono::seconds(15);
  ExecSessions* exec = nullptr;  // null = no commands in tasks
  std::shared_ptr<ReadFences> fences = std::make_shared<ReadFences>();
  std::shared_ptr<Allowances> allowances = std::make_shared<Allowances>();
  std::shared_ptr<RequestSlots> requests = std::make_shared<RequestSlots>();
  std::shared_ptr<const TrustedProxies> proxies = std::make_shared<TrustedProxies>();
  const ServerTls* tls = nullptr;  // null = plain HTTP
  std::shared_ptr<GateCounters> connections = std::make_shared<GateCounters>();
  std::shared_ptr<const AlertCounters> alerts = nullptr;  // null = they are posted nowhere
};

[[nodiscard]] Routes JobRoutes(App& app);
[[nodiscard]] Routes LogRoutes(App& app);
[[nodiscard]] Routes ExecRoutes(App& app);
[[nodiscard]] Routes NodeRoutes(App& app);
[[nodiscard]] Routes RankRoutes(App& app);
[[nodiscard]] Routes ImageRoutes(App& app);
[[nodiscard]] Routes SecretRoutes(App& app);
[[nodiscard]] Routes StreamRoutes(App& app);
[[nodiscard]] Routes SessionRoutes(App& app);
[[nodiscard]] Routes PeopleRoutes(App& app);
[[nodiscard]] Routes TokenRoutes(App& app);
[[nodiscard]] Routes UsageRoutes(App& app);
[[nodiscard]] Routes SystemRoutes(App& app);
[[nodiscard]] Routes AllRoutes(App& app);

// Shared by the files of routes.

// The view, or 503 until the scheduler has sent one.
[[nodiscard]] std::expected<ViewPtr, Problem> NeedView(const App& app);
// Finds the job that an id or a name means to the caller. Errors: NotFound; 409 where it may be one
// of several users'.
[[nodiscard]] std::expected<std::shared_ptr<const JobRow>, Problem> LookUpJob(
    const App& app, const Call& call, const std::string& ref);
// Finds the job of the path. Refused where the caller may not do to it what the route does, and
// where it is another's and is to be acted on by its name; a look at another's is recorded before
// it is granted.
[[nodiscard]] std::expected<std::shared_ptr<const JobRow>, Problem> NeedJob(const App& app,
                                                                            const Call& call);
// The same check, of a job that is known.
[[nodiscard]] std::expected<void, Problem> CheckJob(const App& app,
                                                    const Call& call,
                                                    const v1::Job& job);
// How much of a job a list shows to the caller: all of its own, of others' to operators what is no
// spec, else the outline. What is inside is asked for one by one, which is recorded.
[[nodiscard]] Detail DetailInLists(const Call& call, const v1::Job& job);
// "Not found", or 503 while there is no scheduler: it may know what was acknowledged just before.
[[nodiscard]] Problem NotFound(const App& app, const std::string& detail);
// The same; of a job that the view shows no more, what the scheduler's store has in its archive.
[[nodiscard]] std::expected<std::shared_ptr<const JobRow>, Problem> NeedJobOrArchived(
    const App& app, const Call& call);
struct AuditNote {
  std::string object;              // "j-12"
  std::string owner;               // of the object, "" = nobody
  std::optional<Problem> refusal;  // nothing = it was done
};
// Has the scheduler record what was refused here, or looked at here. What it does itself it records
// itself. Errors: it does not answer; then nothing is to be shown.
[[nodiscard]] Status RecordAudit(const App& app, const Call& call, const AuditNote& note);
// Waits a little for the change just made, so that the caller's next read shows it.
void AwaitRev(const App& app, uint64_t rev);

// One page of a list: `limit` and `cursor` of the query.
struct Page {
  size_t limit = 100;
  std::string cursor;
};
[[nodiscard]] std::expected<Page, Problem> ParsePage(const Call& call, size_t default_limit);
// A whole number of the query; `fallback` when it is not there.
[[nodiscard]] std::expected<int64_t, Problem> ParseNumber(const Call& call,
                                                          const std::string& key,
                                                          int64_t fallback);

// A moment of the query, in unix ns: a time, or how long ago ("10m"); 0 when it is not there.
[[nodiscard]] std::expected<int64_t, Problem> ParseTime(const Call& call,
                                                        const std::string& key,
                                                        Instant now);

// Gathers the items of a page and writes the list's document.
class ListWriter {
 public:
  explicit ListWriter(const Page& page) : limit_(page.limit) {}
  // Counts an item; call it for every one that matches, in order. True when it is of the page: then
  // it is to be put.
  [[nodiscard]] bool Count(bool before_page);
  // Counts items none of which is of the page: they stand before it, or it is full.
  void Skip(size_t items, bool before_page);
  [[nodiscard]] bool full() const { return count_ == limit_; }
  //   cursor: the page after it begins there.
  void Put(const std::string& json, const std::string& cursor);
  [[nodiscard]] Outcome Finish(const App& app, const View& view, const Call& call) const;

 private:
  const size_t limit_;
  size_t count_ = 0;
  size_t total_ = 0;
  std::string items_;
  std::string last_;
  bool more_ = false;
};

// Text field `key` of a JSON object body; "" when absent. An empty body is an empty object.
[[nodiscard]] std::expected<std::string, Problem> BodyText(const Call& call,
                                                           const std::string& key);
// Whether the body is an object that has `key`, and not null there.
[[nodiscard]] bool HasBodyKey(const Call& call, const std::string& key);
[[nodiscard]] std::expected<int64_t, Problem> BodyNumber(const Call& call, const std::string& key);

}  // namespace tide::api
