// Health and metrics.

#include <algorithm>
#include <sstream>

#include "api/http/routes.h"
#include "api/view/gpu_usage.h"
#include "api/view/json.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

Outcome Ready(const App& app) {
  const auto stale = app.store.StaleSeconds();
  if (app.store.Get() == nullptr || stale) {
    return Refuse(ErrorCode::kUnavailable, "no connection to the scheduler; running jobs continue");
  }
  Reply reply;
  reply.content_type = std::string(kTextType);
  reply.body = "ready\n";
  return reply;
}

std::string CertificateMetric(const ServerTls& tls) {
  const int64_t left = tls.expires_at() - SystemNow().unix_nanos() / 1'000'000'000;
  return "# HELP tide_certificate_expires_seconds Time until a certificate of this daemon "
         "expires.\n"
         "# TYPE tide_certificate_expires_seconds gauge\n"
         "tide_certificate_expires_seconds{certificate=\"https\"} " +
         std::to_string(left) + "\n";
}

std::string Sample(const std::string& name, const std::string& labels, size_t value) {
  return name + (labels.empty() ? "" : "{" + labels + "}") + " " + std::to_string(value) + "\n";
}

// A value of a label, with the characters that would end it escaped.
std::string Label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? ' ' : c;
  }
  return "\"" + out + "\"";
}

// Only what was counted: a class that is settled never goes back.
std::string GpuTimeMetrics(const View& view) {
  const HeldTime held = CountedByAll(view);
  const auto sample = [&](const std::string& name, size_t use) {
    const auto each = static_cast<GpuUse>(use);
    return Sample(name,
                  "class=" + Label(std::string(GpuUseName(each))),
                  static_cast<size_t>(std::max<int64_t>(0, held[each]) / 1000));
  };
  std::string text =
      "# HELP tide_gpu_seconds_total GPU time that jobs held, by what it was spent on.\n"
      "# TYPE tide_gpu_seconds_total counter\n";
  for (size_t use = 0; use < kSettledUses; ++use) {
    text += sample("tide_gpu_seconds_total", use);
  }
  text +=
      "# HELP tide_gpu_seconds_open GPU time that jobs held, in no class yet: work that is not "
      "saved, and time without a step so far.\n"
      "# TYPE tide_gpu_seconds_open gauge\n";
  for (size_t use = kSettledUses; use < kHeldUses; ++use) {
    text += sample("tide_gpu_seconds_open", use);
  }
  return text;
}

std::string RecoveryMetrics(const Recoveries& recoveries) {
  const std::string name = "tide_recovery_seconds";
  std::string text = "# HELP " + name +
                     " Time that jobs took to recover from faults, by stage: detect, stop, "
                     "relaunch, first_step, and the whole.\n# TYPE " +
                     name + " histogram\n";
  for (size_t i = 0; i < kRecoveryStages; ++i) {
    const Histogram& histogram = recoveries.at(i);
    const std::string stage =
        "stage=" + Label(std::string(RecoveryStageName(static_cast<RecoveryStage>(i))));
    size_t count = 0;
    for (size_t bucket = 0; bucket < histogram.counts.size(); ++bucket) {
      count += histogram.counts.at(bucket);
      std::ostringstream bound;
      bucket < Histogram::kBounds.size() ? bound << Histogram::kBounds.at(bucket) : bound << "+Inf";
      text += Sample(name + "_bucket", stage + ",le=" + Label(bound.str()), count);
    }
    std::ostringstream sum;
    sum << histogram.sum;
    text += name + "_sum{" + stage + "} " + sum.str() + "\n";
    text += Sample(name + "_count", stage, count);
  }
  return text;
}

std::string AlertMetrics(const AlertCounters& alerts) {
  return "# HELP tide_alert_posts_total Posts to the webhook: taken; failed, and tried again "
         "before all "
         "that follows; refused, and set aside.\n"
         "# TYPE tide_alert_posts_total counter\n" +
         Sample("tide_alert_posts_total", "result=\"taken\"", alerts.taken) +
         Sample("tide_alert_posts_total", "result=\"failed\"", alerts.failed) +
         Sample("tide_alert_posts_total", "result=\"refused\"", alerts.refused);
}

Outcome Metrics(const App& app) {
  std::map<std::string, size_t> jobs;
  std::map<std::string, size_t> nodes;
  std::map<std::string, size_t> failing;
  const ViewPtr view = app.store.Get();
  if (view != nullptr) {
    for (const auto& [id, row] : view->jobs) {
      ++jobs["state=" + Label(StateWord(row->message.state()))];
      if (row->message.failed_saves() > 0) {
        ++failing["errno=" + Label(ErrnoName(row->message.save_errno()))];
      }
    }
    for (const auto& [name, row] : view->nodes) {
      ++nodes["zone=" + Label(row->message.zone()) +
              ",state=" + Label(StateWord(row->message.state()))];
    }
  }
  std::string text =
      "# HELP tide_build_info Version of this program.\n"
      "# TYPE tide_build_info gauge\n" +
      Sample("tide_build_info", "version=" + Label(TIDE_VERSION), 1) +
      "# HELP tide_jobs Jobs by state.\n# TYPE tide_jobs gauge\n";
  for (const auto& [labels, count] : jobs) {
    text += Sample("tide_jobs", labels, count);
  }
  text +=
      "# HELP tide_jobs_failing_saves Jobs whose last save failed, by error of the system.\n"
      "# TYPE tide_jobs_failing_saves gauge\n";
  for (const auto& [labels, count] : failing) {
    text += Sample("tide_jobs_failing_saves", labels, count);
  }
  text += "# HELP tide_nodes Nodes by zone and state.\n# TYPE tide_nodes gauge\n";
  for (const auto& [labels, count] : nodes) {
    text += Sample("tide_nodes", labels, count);
  }
  if (view != nullptr) {
    text += GpuTimeMetrics(*view) + RecoveryMetrics(*view->recoveries);
  }
  text +=
      "# HELP tide_streams Open live streams and log readers.\n# TYPE tide_streams gauge\n" +
      Sample("tide_streams", "", static_cast<size_t>(app.streams.open())) +
      "# HELP tide_http_connections Open connections, and those of them that a thread serves.\n"
      "# TYPE tide_http_connections gauge\n" +
      Sample("tide_http_connections", "state=\"open\"", app.connections->open) +
      Sample("tide_http_connections", "state=\"busy\"", app.connections->busy) +
      "# HELP tide_http_refused_total Requests that were not let in; connections that were closed "
      "since they were idle or slow, or to make room.\n"
      "# TYPE tide_http_refused_total counter\n" +
      Sample("tide_http_refused_total", "what=\"request\"", app.connections->refused) +
      Sample("tide_http_refused_total", "what=\"overdue\"", app.connections->overdue) +
      Sample("tide_http_refused_total", "what=\"crowded\"", app.connections->crowded) +
      "# HELP tide_view_stale_seconds Age of the data since the scheduler was lost.\n"
      "# TYPE tide_view_stale_seconds gauge\n" +
      Sample(
          "tide_view_stale_seconds", "", static_cast<size_t>(app.store.StaleSeconds().value_or(0)));
  if (app.tls != nullptr) {
    text += CertificateMetric(*app.tls);
  }
  if (app.alerts != nullptr) {
    text += AlertMetrics(*app.alerts);
  }
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = std::move(text);
  return reply;
}

}  // namespace

Routes SystemRoutes(App& app) {
  return {{"GET",
           "/healthz",
           kOpen,
           [](const Call&) -> Outcome {
             Reply reply;
             reply.content_type = std::string(kTextType);
             reply.body = "ok\n";
             return reply;
           }},
          {"GET", "/readyz", kOpen, [&app](const Call&) { return Ready(app); }},
          {"GET", "/metrics", kOpen, [&app](const Call&) { return Metrics(app); }}};
}

}  // namespace tide::api
