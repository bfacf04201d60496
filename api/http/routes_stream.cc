// GET /v1/stream: server-sent events. A snapshot, then what changed, merged; `id:` lets a browser
// that lost the connection go on where it was.

#include <charconv>

#include "api/http/routes.h"
#include "api/view/json.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;

// Finished jobs pile up; a browser gets the newest of them and asks for others by page.
constexpr int kFinishedInSnapshot = 200;
// How often a quiet stream looks whether its client is there and the data still fresh.
constexpr milliseconds kLook{500};

void Append(std::string& list, const std::string& item) {
  if (!list.empty()) {
    list += ',';
  }
  list += item;
}

const std::string& JsonFor(const Call& call, const JobRow& row) {
  return row.json(DetailInLists(call, row.message));
}
template <typename T>
const std::string& JsonFor(const Call& /*call*/, const Row<T>& row) {
  return row.json();
}

std::string SnapshotJson(const View& view, const Call& call) {
  std::string jobs;
  int finished = 0;
  for (auto it = view.jobs.rbegin(); it != view.jobs.rend(); ++it) {
    const bool is_finished = it->second->message.state() == v1::JOB_STATE_FINISHED;
    if (!is_finished || ++finished <= kFinishedInSnapshot) {
      Append(jobs, JsonFor(call, *it->second));
    }
  }
  std::string nodes;
  for (const auto& [name, row] : view.nodes) {
    Append(nodes, row->json());
  }
  std::string faults;
  for (auto it = view.incidents.rbegin(); it != view.incidents.rend(); ++it) {
    Append(faults, it->second->json());
  }
  return "{\"rev\":" + std::to_string(view.rev) + ",\"jobs\":[" + jobs + "],\"nodes\":[" + nodes +
         "],\"faults\":[" + faults + "]}";
}

// `named` says how an object that is gone is called.
template <typename Rows, typename Keys, typename Named>
void Sort(const Call& call,
          const Rows& rows,
          const Keys& keys,
          Named named,
          std::string& now,
          std::string& gone) {
  for (const auto& key : keys) {
    const auto it = rows.find(key);
    if (it != rows.end()) {
      Append(now, JsonFor(call, *it->second));
    } else {
      Append(gone, named(key));
    }
  }
}

std::string DeltaJson(const View& view, const Call& call, const Changes& changes) {
  std::string jobs;
  std::string nodes;
  std::string faults;
  std::string gone_jobs;
  std::string gone_nodes;
  std::string gone_faults;
  const auto job_name = [](uint64_t id) { return Quoted(FormatJobName(id)); };
  const auto number = [](uint64_t id) { return std::to_string(id); };
  Sort(call, view.jobs, changes.jobs, job_name, jobs, gone_jobs);
  Sort(call, view.nodes, changes.nodes, Quoted, nodes, gone_nodes);
  Sort(call, view.incidents, changes.incidents, number, faults, gone_faults);
  return "{\"rev\":" + std::to_string(view.rev) + ",\"changed\":{\"jobs\":[" + jobs +
         "],\"nodes\":[" + nodes + "],\"faults\":[" + faults + "]},\"removed\":{\"jobs\":[" +
         gone_jobs + "],\"nodes\":[" + gone_nodes + "],\"faults\":[" + gone_faults + "]}}";
}

class EventStream {
 public:
  EventStream(const App& app, const Call& call, BodySink& sink)
      : app_(app), call_(call), sink_(sink) {}

  // Ends when the token of its caller does, or its user's role changes: a stream that is opened
  // again says so.
  void Run() {
    if (!Begin(call_.Header("last-event-id"))) {
      return;
    }
    while (sink_.Alive() && !app_.store.stopped()) {
      const ViewPtr view = app_.store.WaitBeyond(seq_, std::min(kLook, app_.stream_heartbeat));
      if (app_.store.stopped() || !sink_.Alive() || !SendStatus()) {
        return;
      }
      const bool sent = view->seq > seq_ ? SendDelta() : SendHeartbeat();
      if (!sent) {
        return;
      }
    }
  }

 private:
  bool Begin(const std::string& last_event_id) {
    const std::string prefix = app_.store.boot() + "-";
    if (last_event_id.starts_with(prefix)) {
      const char* const begin = last_event_id.data() + prefix.size();
      const char* const end = last_event_id.data() + last_event_id.size();
      uint64_t seq = 0;
      const auto parsed = std::from_chars(begin, end, seq);
      if (parsed.ec == std::errc() && parsed.ptr == end && app_.store.Since(seq).second) {
        seq_ = seq;
        return Write(": resumed\n\n");
      }
    }
    return SendSnapshot(*app_.store.Get());
  }

  bool SendSnapshot(const View& view) {
    seq_ = view.seq;
    return Write(Event("snapshot", SnapshotJson(view, call_)));
  }

  bool SendDelta() {
    const int64_t due = last_delta_ + milliseconds(app_.stream_merge).count() * 1'000'000;
    const int64_t early = due - MonotonicNanos();
    if (early > 0 && app_.store.Pause(milliseconds(early / 1'000'000 + 1))) {
      return false;
    }
    last_delta_ = MonotonicNanos();
    const auto [view, changes] = app_.store.Since(seq_);
    if (!changes) {
      return SendSnapshot(*view);
    }
    seq_ = view->seq;
    return Write(Event("delta", DeltaJson(*view, call_, *changes)));
  }

  // Says when the data stops being fresh, how old it is then, and when it is fresh again.
  bool SendStatus() {
    const auto stale = app_.store.StaleSeconds();
    if (stale == stale_) {
      return true;
    }
    stale_ = stale;
    return Write("event: status\ndata: {\"stale\":" + std::string(stale ? "true" : "false") +
                 ",\"seconds\":" + std::to_string(stale.value_or(0)) + "}\n\n");
  }

  bool SendHeartbeat() {
    if (MonotonicNanos() - last_write_ < app_.stream_heartbeat.count() * 1'000'000) {
      return true;
    }
    return Write(": heartbeat\n\n");
  }

  [[nodiscard]] std::string Event(const std::string& name, const std::string& data) const {
    return "id: " + app_.store.boot() + "-" + std::to_string(seq_) + "\nevent: " + name +
           "\ndata: " + data + "\n\n";
  }

  bool Write(const std::string& text) {
    last_write_ = MonotonicNanos();
    return sink_.Write(text);
  }

  const App& app_;
  const Call& call_;
  BodySink& sink_;
  uint64_t seq_ = 0;
  int64_t last_delta_ = 0;
  int64_t last_write_ = 0;
  std::optional<int64_t> stale_;
};

Outcome Stream(App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const auto slot = app.streams.Take(call.who.user);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  Reply reply;
  reply.content_type = "text/event-stream";
  reply.stream = [&app, slot = *slot, call](BodySink& sink) { EventStream(app, call, sink).Run(); };
  return reply;
}

}  // namespace

Routes StreamRoutes(App& app) {
  return {
      {"GET", "/v1/stream", Operation::kSeeJobs, [&app](const Call& c) { return Stream(app, c); }}};
}

}  // namespace tide::api
