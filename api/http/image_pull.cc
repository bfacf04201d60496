#include "api/http/image_pull.h"

#include <nlohmann/json.hpp>
#include <thread>

namespace tide::api {
namespace {

// How often is looked whether the client is there.
constexpr std::chrono::milliseconds kPullLook{500};

std::string JsonLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void ImagePull::Run(BodySink& sink, std::chrono::milliseconds heartbeat) {
  std::jthread pulls(
      [this] { ForEachNode(nodes_.size(), [this](size_t i) { PullOn(nodes_[i]); }); });
  bool there = sink.Write(JsonLine({{"nodes", nodes_.size()}}));
  auto written = std::chrono::steady_clock::now();
  for (bool all = false; there && !all;) {
    std::string lines = TakeLines(std::min(kPullLook, heartbeat));
    all = lines.empty() && [this] {
      const std::scoped_lock lock(mutex_);
      return over_ == nodes_.size() && ends_.empty();
    }();
    const auto now = std::chrono::steady_clock::now();
    if (all) {
      lines = JsonLine({{"done", true}, {"pulled", pulled_}, {"failed", nodes_.size() - pulled_}});
    } else if (lines.empty() && now - written >= heartbeat) {
      lines = "\n";
    }
    written = lines.empty() ? written : now;
    there = lines.empty() ? sink.Alive() : sink.Write(lines);
  }
  if (!there) {
    CallOff();
  }
}

void ImagePull::PullOn(const ChosenNode& node) {
  if (const Status fetched = FetchOn(node); !fetched) {
    SayEnd(node.agent.node,
           JsonLine({{"node", node.agent.node},
                     {"error", fetched.error().message},
                     {"code", ErrorCodeName(fetched.error().code)}}));
  }
}

// Says the end of one that has it.
Status ImagePull::FetchOn(const ChosenNode& node) {
  if (!node.unreachable.empty()) {
    return Fail(ErrorCode::kUnavailable, node.unreachable);
  }
  const auto call = called_off_ ? nullptr : images_.Pull(node.agent, request_);
  if (call == nullptr || !Enter(*call)) {
    return Fail(ErrorCode::kUnavailable, "called off");
  }
  std::string digest;
  while (const auto message = call->Read()) {
    digest = message->digest();
    if (digest.empty()) {
      SayProgress(node.agent.node, message->progress());
    }
  }
  Leave(*call);
  TIDE_TRY(call->Finish());
  if (digest.empty()) {
    return Fail(ErrorCode::kInternal, "its agent did not say which image it is");
  }
  {
    const std::scoped_lock lock(mutex_);
    ++pulled_;
  }
  SayEnd(node.agent.node, JsonLine({{"node", node.agent.node}, {"digest", digest}}));
  return {};
}

bool ImagePull::Enter(PullCall& call) {
  const std::scoped_lock lock(mutex_);
  if (!called_off_) {
    calls_.insert(&call);
  }
  return !called_off_;
}

void ImagePull::Leave(PullCall& call) {
  const std::scoped_lock lock(mutex_);
  calls_.erase(&call);
}

void ImagePull::SayProgress(const std::string& node, const std::string& progress) {
  const std::scoped_lock lock(mutex_);
  progress_[node] = JsonLine({{"node", node}, {"progress", progress}});
  changed_.notify_all();
}

void ImagePull::SayEnd(const std::string& node, std::string line) {
  const std::scoped_lock lock(mutex_);
  progress_.erase(node);
  ends_.push_back(std::move(line));
  ++over_;
  changed_.notify_all();
}

std::string ImagePull::TakeLines(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] {
    return !ends_.empty() || !progress_.empty() || over_ == nodes_.size();
  });
  std::string lines;
  for (const auto& [node, line] : progress_) {
    lines += line;
  }
  for (const std::string& line : ends_) {
    lines += line;
  }
  progress_.clear();
  ends_.clear();
  return lines;
}

void ImagePull::CallOff() {
  const std::scoped_lock lock(mutex_);
  called_off_ = true;
  for (PullCall* call : calls_) {
    call->Cancel();
  }
}

}  // namespace tide::api
