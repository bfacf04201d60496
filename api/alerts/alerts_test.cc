// Alerts, and their way to a receiver that fails, is slow, or is not there.

#include <httplib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "api/alerts/outbox.h"
#include "api/alerts/webhook.h"
#include "common/base/file.h"

namespace tide::api {
namespace {

using nlohmann::json;

constexpr Instant kAlertEpoch = Instant::FromUnixNanos(1'700'000'000'000'000'000);
const std::string kSecret = "0123456789abcdef";

v1::Node WaitingNode(const std::string& name, int64_t since = 7) {
  v1::Node node;
  node.set_name(name);
  node.set_state(v1::NODE_STATE_QUARANTINED);
  node.set_awaits_person(true);
  node.set_reason("Xid 79 on 0000:a1:00, repair it");
  node.set_state_since(since);
  return node;
}

v1::Node WellNode(const std::string& name) {
  v1::Node node;
  node.set_name(name);
  node.set_state(v1::NODE_STATE_READY);
  return node;
}

void ShowNodes(ViewStore& store, const std::vector<v1::Node>& nodes) {
  v1::ViewDelta delta;
  delta.set_rev(1);
  delta.set_term(1);
  delta.set_reset(true);
  for (const v1::Node& node : nodes) {
    *delta.add_nodes() = node;
  }
  store.Apply(delta);
}

Alerts AlertsOf(const std::vector<v1::Node>& nodes, Instant now = kAlertEpoch) {
  ViewStore store;
  ShowNodes(store, nodes);
  return FiringAlerts(*store.Get(), now);
}

// Posts what is due until nothing is, and returns the ids.
std::vector<std::string> TakeAll(Outbox& outbox, Instant now = kAlertEpoch) {
  std::vector<std::string> ids;
  while (const auto notice = outbox.Due(now)) {
    ids.push_back(notice->Id());
    outbox.Taken(*notice);
  }
  return ids;
}

using Ids = std::vector<std::string>;

// A receiver of webhooks, which answers as it is told.
class Receiver {
 public:
  explicit Receiver(int status = 200) : status_(status) {
    server_.Post("/hooks/tide", [this](const httplib::Request& request, httplib::Response& answer) {
      const std::scoped_lock lock(mutex_);
      bodies_.push_back(json::parse(request.body));
      answer.status = bodies_.back()["alert"] == unwanted_ ? unwanted_status_ : status_;
      signed_ = signed_ && Signed(request);
      changed_.notify_all();
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) {
      std::this_thread::yield();
    }
  }
  ~Receiver() {
    server_.stop();
    thread_.join();
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void Answer(int status) {
    const std::scoped_lock lock(mutex_);
    status_ = status;
  }
  // Answers otherwise to this alert.
  void Refuse(const std::string& alert, int status) {
    const std::scoped_lock lock(mutex_);
    unwanted_ = alert;
    unwanted_status_ = status;
  }
  std::vector<json> WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return bodies_.size() >= count; }));
    return bodies_;
  }
  [[nodiscard]] bool all_signed() {
    const std::scoped_lock lock(mutex_);
    return signed_;
  }
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/hooks/tide";
  }

 private:
  static bool Signed(const httplib::Request& request) {
    const std::string given = request.get_header_value("Tide-Signature");
    return given == SignBody(kSecret, std::strtoll(given.c_str() + 2, nullptr, 10), request.body);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int status_;
  std::string unwanted_;
  int unwanted_status_ = 0;
  bool signed_ = true;
  std::vector<json> bodies_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

struct AlertFolder {
  AlertFolder() {
    path = std::filesystem::temp_directory_path() / "tide-alerts-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  AlertFolder(const AlertFolder&) = delete;
  AlertFolder& operator=(const AlertFolder&) = delete;
  ~AlertFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// A webhook of a view, which ends when this does.
struct Posting {
  Posting(const std::string& url, const std::string& state) {
    store.MarkConnected();
    auto opened = Webhook::Open(store, {url, kSecret, state, "", counters});
    REQUIRE(opened);
    webhook = *std::move(opened);
  }
  Posting(const Posting&) = delete;
  Posting& operator=(const Posting&) = delete;
  ~Posting() {
    store.Stop();
    CHECK(webhook->WaitForEnd(std::chrono::seconds(60)));
  }
  ViewStore store;
  std::shared_ptr<AlertCounters> counters = std::make_shared<AlertCounters>();
  std::unique_ptr<Webhook> webhook;
};

TEST_CASE("alerts are faults that page, nodes that wait for people, nodes lost for long",
          "[alerts]") {
  CHECK(AlertsOf({WellNode("a")}).empty());
  const Alerts one = AlertsOf({WellNode("a"), WaitingNode("b")});
  REQUIRE(one.size() == 1);
  CHECK(one.at("node-b").summary ==
        "b is out of service and waits for a person: Xid 79 on 0000:a1:00, repair it");
  v1::Node lost = WellNode("c");
  lost.set_state(v1::NODE_STATE_LOST);
  lost.set_state_since(kAlertEpoch.unix_nanos());
  CHECK(AlertsOf({lost}, kAlertEpoch + Duration::Minutes(9)).empty());
  CHECK(AlertsOf({lost}, kAlertEpoch + Duration::Minutes(10)).contains("node-c"));
  // Rebooted as its repair, and never seen again.
  lost.set_state(v1::NODE_STATE_QUARANTINED);
  lost.set_actor("tide");
  CHECK(AlertsOf({lost}, kAlertEpoch + Duration::Minutes(10)).contains("node-c"));
  lost.set_connected(true);
  CHECK(AlertsOf({lost}, kAlertEpoch + Duration::Minutes(10)).empty());

  ViewStore store;
  v1::ViewDelta delta;
  delta.set_reset(true);
  v1::Incident& page = *delta.add_incidents();
  page.set_id(17);
  page.set_page(true);
  page.set_meaning("more nodes broke than may be taken out");
  page.set_text("12 in 10m");
  v1::Incident& counted = *delta.add_incidents();
  counted.set_id(18);
  v1::Incident& over = *delta.add_incidents();
  over.set_id(19);
  over.set_page(true);
  over.set_cleared_at(9);
  store.Apply(delta);
  const Alerts pages = FiringAlerts(*store.Get(), kAlertEpoch);
  REQUIRE(pages.size() == 1);
  CHECK(pages.at("fault-17").summary == "more nodes broke than may be taken out: 12 in 10m");
  CHECK_FALSE(IsSilentForLong(59));
  CHECK(IsSilentForLong(60));
}

TEST_CASE("each beginning and each end is told once, over restarts too", "[alerts]") {
  Outbox outbox;
  outbox.Take(AlertsOf({WaitingNode("a"), WaitingNode("b")}));
  CHECK(TakeAll(outbox) == Ids{"node-a@7/begin", "node-b@7/begin"});
  CHECK(TakeAll(outbox).empty());
  outbox = *Outbox::Load(outbox.Save());
  outbox.Take(AlertsOf({WaitingNode("a"), WaitingNode("b")}));
  CHECK(TakeAll(outbox).empty());
  outbox.Take(AlertsOf({WaitingNode("a", 8)}));
  CHECK(TakeAll(outbox) == Ids{"node-a@8/begin", "node-b@7/end"});
  outbox.Take({});
  CHECK(TakeAll(outbox) == Ids{"node-a@8/end"});
  CHECK(outbox.told().empty());
}

TEST_CASE("an alert that ended before it was taken is not told at all", "[alerts]") {
  Outbox outbox;
  outbox.Take(AlertsOf({WaitingNode("a")}));
  REQUIRE(outbox.Due(kAlertEpoch));
  outbox.Failed(kAlertEpoch);
  outbox.Take({});
  CHECK_FALSE(outbox.Due(kAlertEpoch + Duration::Minutes(60)));
}

TEST_CASE("the wait after a failure doubles up to five minutes", "[alerts]") {
  Outbox outbox;
  outbox.Take(AlertsOf({WaitingNode("a")}));
  Instant now = kAlertEpoch;
  for (const int64_t seconds : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    outbox.Failed(now);
    CHECK_FALSE(outbox.Due(now + Duration::Seconds(seconds) - Duration::Nanos(1)));
    now = now + Duration::Seconds(seconds);
    CHECK(outbox.Due(now));
  }
  outbox.Taken(*outbox.Due(now));
  outbox.Take({});
  CHECK(outbox.Due(now));  // at once
}

TEST_CASE("what is refused is set aside, and the others go out", "[alerts]") {
  Outbox outbox;
  const Alerts both = AlertsOf({WaitingNode("a"), WaitingNode("b")});
  outbox.Take(both);
  outbox.Failed(kAlertEpoch);
  Instant now = kAlertEpoch + Duration::Seconds(1);
  REQUIRE(outbox.Due(now)->Id() == "node-a@7/begin");
  outbox.Refused(*outbox.Due(now), now);
  CHECK(TakeAll(outbox, now) == Ids{"node-b@7/begin"});
  for (const int64_t minutes : {5, 10, 20, 40, 60, 60, 60, 60, 60, 60}) {
    outbox.Take(both);  // it lasts
    CHECK_FALSE(outbox.Due(now + Duration::Minutes(minutes) - Duration::Nanos(1)));
    now = now + Duration::Minutes(minutes);
    REQUIRE(outbox.Due(now));
    CHECK(outbox.Due(now)->Id() == "node-a@7/begin");
    outbox.Refused(*outbox.Due(now), now);
  }
  SECTION("one that begins anew is another") {
    outbox.Take(AlertsOf({WaitingNode("a", 8), WaitingNode("b")}));
    CHECK(TakeAll(outbox, now) == Ids{"node-a@8/begin"});
  }
  SECTION("its end is not told") {
    outbox.Take(AlertsOf({WaitingNode("b")}));
    CHECK_FALSE(outbox.Due(now + Duration::Minutes(24 * 60)));
  }
  SECTION("it is taken in the end") {
    now = now + Duration::Minutes(60);
    CHECK(TakeAll(outbox, now) == Ids{"node-a@7/begin"});
    outbox.Take(AlertsOf({WaitingNode("b")}));
    CHECK(TakeAll(outbox, now) == Ids{"node-a@7/end"});
  }
}

TEST_CASE("an end that is refused again and again is given up", "[alerts]") {
  Outbox outbox;
  outbox.Take(AlertsOf({WaitingNode("a")}));
  CHECK(TakeAll(outbox).size() == 1);
  outbox.Take({});
  Instant now = kAlertEpoch;
  for (int tries = 1; tries <= Outbox::kEndTries; ++tries) {
    CHECK(outbox.told().size() == 1);
    now = now + Outbox::kAsideMax;
    REQUIRE(outbox.Due(now));
    outbox.Refused(*outbox.Due(now), now);
  }
  CHECK(outbox.told().empty());
  CHECK_FALSE(outbox.Due(now + Duration::Minutes(24 * 60)));
}

TEST_CASE("a record that is none is refused", "[alerts]") {
  for (const char* text :
       {"", "{}", "[]", R"({"version":2,"told":{}})", R"({"version":1,"told":{"a":1}})"}) {
    INFO(text);
    CHECK_FALSE(Outbox::Load(text));
  }
}

TEST_CASE("a receiver that fails is asked again, and one that took it is not", "[alerts]") {
  const AlertFolder folder;
  const std::string state = folder.path + "/alerts.json";
  Receiver receiver(503);
  {
    Posting posting(receiver.url(), state);
    ShowNodes(posting.store, {WaitingNode("a")});
    receiver.WaitFor(2);
    receiver.Answer(204);
    const size_t failed = receiver.WaitFor(3).size();
    ShowNodes(posting.store, {WellNode("a")});
    const auto bodies = receiver.WaitFor(failed + 1);
    CHECK(bodies[0]["status"] == "firing");
    CHECK(bodies[0]["alert"] == "node-a");
    CHECK(bodies[0]["node"] == "a");
    CHECK(bodies[0]["id"] == bodies[1]["id"]);
    CHECK(bodies.back()["status"] == "resolved");
    ShowNodes(posting.store, {WaitingNode("b")});
    receiver.WaitFor(bodies.size() + 1);
    // The next one comes after the record of this is on disk.
    ShowNodes(posting.store, {WaitingNode("b"), WaitingNode("c")});
    receiver.WaitFor(bodies.size() + 2);
  }
  const size_t before = receiver.WaitFor(0).size();
  Posting posting(receiver.url(), state);
  ShowNodes(posting.store, {WaitingNode("b"), WaitingNode("c"), WaitingNode("d")});
  const auto bodies = receiver.WaitFor(before + 1);
  CHECK(bodies.at(before)["alert"] == "node-d");
  CHECK(receiver.all_signed());
}

TEST_CASE("an alert that the receiver refuses does not hold the others", "[alerts]") {
  const AlertFolder folder;
  Receiver receiver(200);
  const int status = GENERATE(400, 404, 413, 422);
  receiver.Refuse("node-a", status);
  Posting posting(receiver.url(), folder.path + "/alerts.json");
  ShowNodes(posting.store, {WaitingNode("a"), WaitingNode("b"), WaitingNode("c")});
  const auto bodies = receiver.WaitFor(3);
  CHECK(bodies[0]["alert"] == "node-a");
  CHECK(bodies[1]["alert"] == "node-b");
  CHECK(bodies[2]["alert"] == "node-c");
  posting.store.Stop();
  REQUIRE(posting.webhook->WaitForEnd(std::chrono::seconds(60)));
  CHECK(posting.counters->refused == 1);
  CHECK(posting.counters->taken == 2);
  CHECK(posting.counters->failed == 0);
}

TEST_CASE("a receiver that is busy is asked again, and nothing goes before", "[alerts]") {
  const AlertFolder folder;
  Receiver receiver(200);
  receiver.Refuse("node-a", GENERATE(408, 429, 500));
  Posting posting(receiver.url(), folder.path + "/alerts.json");
  ShowNodes(posting.store, {WaitingNode("a"), WaitingNode("b")});
  receiver.WaitFor(2);
  receiver.Refuse("", 0);
  auto bodies = receiver.WaitFor(4);
  while (bodies.back()["alert"] != "node-b") {  // it may have been refused a third time
    bodies = receiver.WaitFor(bodies.size() + 1);
  }
  bodies.pop_back();
  CHECK(std::ranges::all_of(bodies, [](const json& body) { return body["alert"] == "node-a"; }));
  CHECK(posting.counters->refused == 0);
  CHECK(posting.counters->failed >= 2);
}

TEST_CASE("a restart while no scheduler answers ends no alert", "[alerts]") {
  const AlertFolder folder;
  const std::string state = folder.path + "/alerts.json";
  Outbox outbox;
  outbox.Take({{kSchedulerKey, SilentSchedulerAlert(kAlertEpoch)}});
  CHECK(TakeAll(outbox) == Ids{"scheduler@1700000000000000000/begin"});
  REQUIRE(WriteFileDurably(state, outbox.Save()));
  Receiver receiver;
  ViewStore store;
  store.MarkBroken();
  ShowNodes(store, {WaitingNode("a")});
  auto webhook = Webhook::Open(store, {receiver.url(), kSecret, state, ""});
  REQUIRE(webhook);
  CHECK(receiver.WaitFor(1)[0]["alert"] == "node-a");  // and not the scheduler's end
  store.MarkConnected();
  CHECK(receiver.WaitFor(2)[1]["id"] == "scheduler@1700000000000000000/end");
  store.Stop();
}

TEST_CASE("an address or a record that cannot be used is refused at the start", "[alerts]") {
  const AlertFolder folder;
  const ViewStore store;
  const auto code = [&](const std::string& url, const std::string& state) {
    const auto opened = Webhook::Open(store, {url, kSecret, state, ""});
    return opened ? ErrorCode::kInternal : opened.error().code;
  };
  const std::string state = folder.path + "/alerts.json";
  for (const char* url : {"",
                          "host/path",
                          "ftp://host/",
                          "http://",
                          "https:///x",
                          "http://me:pw@host/",
                          "http://h:99999999999/",
                          "http://h:/"}) {
    INFO(url);
    CHECK(code(url, state) == ErrorCode::kInvalidArgument);
  }
  REQUIRE(WriteFileDurably(state, "garbage"));
  CHECK(code("http://127.0.0.1:1/", state) == ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace tide::api
