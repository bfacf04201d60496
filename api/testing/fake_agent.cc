#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "api/testing/fake_upstream.h"
#include "common/base/result.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::api::testing {
namespace {

// How often a waiting call looks whether its client has gone.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::seconds(10);

size_t OffsetOfTail(const std::string& text, int64_t lines) {
  size_t at = text.size();
  if (at > 0 && text.back() == '\n') {
    --at;
  }
  for (; at > 0; --at) {
    if (text[at - 1] == '\n' && --lines == 0) {
      break;
    }
  }
  return lines <= 0 || at == 0 ? at : 0;
}

}  // namespace

class FakeAgent::Service final : public v1::AgentPeer::Service {
 public:
  void Append(const Key& key, const std::string& text, int64_t at);
  void Remove(const Key& key, size_t bytes);
  void Close(const Key& key);
  void Leave();
  void Return();
  bool WaitReads(int count);
  std::vector<v1::ReadLogRequest> reads();

  grpc::Status ReadLog(grpc::ServerContext* context,
                       const v1::ReadLogRequest* request,
                       grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  struct Log {
    std::string text;
    std::map<size_t, int64_t> times;  // from this offset on
    size_t begin = 0;                 // what is before is gone
    bool closed = false;
  };
  static v1::LogChunk Chunk(const Log& log, size_t offset, const v1::ReadLogRequest& request);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Log> logs_;
  std::vector<v1::ReadLogRequest> reads_;
  bool away_ = false;
};

void FakeAgent::Service::Append(const Key& key, const std::string& text, int64_t at) {
  const std::scoped_lock lock(mutex_);
  logs_[key].times[logs_[key].text.size()] = at;
  logs_[key].text += text;
  logs_[key].closed = false;
  changed_.notify_all();
}

void FakeAgent::Service::Remove(const Key& key, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  logs_[key].begin += bytes;
}

std::vector<v1::ReadLogRequest> FakeAgent::Service::reads() {
  const std::scoped_lock lock(mutex_);
  return reads_;
}

// What lies at `offset` and after, or the lines of it that match.
v1::LogChunk FakeAgent::Service::Chunk(const Log& log,
                                       size_t offset,
                                       const v1::ReadLogRequest& request) {
  v1::LogChunk chunk;
  chunk.set_offset(offset);
  chunk.set_next(log.text.size());
  const auto mark = [&](size_t from) {
    v1::LogMark& added = *chunk.add_marks();
    added.set_begin(static_cast<uint32_t>(chunk.data().size()));
    added.set_at(std::prev(log.times.upper_bound(from))->second);
  };
  if (request.grep().empty()) {
    for (size_t from = offset; from < log.text.size();) {
      const auto next = log.times.upper_bound(from);
      const size_t end = next == log.times.end() ? log.text.size() : next->first;
      if (request.marks()) {
        mark(from);
      }
      chunk.mutable_data()->append(log.text, from, end - from);
      from = end;
    }
    return chunk;
  }
  for (size_t from = offset; from < log.text.size();) {
    const size_t end = std::min(log.text.find('\n', from), log.text.size() - 1) + 1;
    if (log.text.substr(from, end - from).find(request.grep()) != std::string::npos) {
      mark(from);
      chunk.mutable_data()->append(log.text, from, end - from);
    }
    from = end;
  }
  return chunk;
}

void FakeAgent::Service::Close(const Key& key) {
  const std::scoped_lock lock(mutex_);
  logs_[key].closed = true;
  changed_.notify_all();
}

void FakeAgent::Service::Leave() {
  const std::scoped_lock lock(mutex_);
  away_ = true;
  changed_.notify_all();
}

void FakeAgent::Service::Return() {
  const std::scoped_lock lock(mutex_);
  away_ = false;
}

bool FakeAgent::Service::WaitReads(int count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, kPatience, [&] { return static_cast<int>(reads_.size()) >= count; });
}

grpc::Status FakeAgent::Service::ReadLog(grpc::ServerContext* context,
                                         const v1::ReadLogRequest* request,
                                         grpc::ServerWriter<v1::LogChunk>* writer) {
  const Key key{request->job_id(), request->epoch(), request->task(), request->rank()};
  std::unique_lock lock(mutex_);
  reads_.push_back(*request);
  changed_.notify_all();
  if (request->grep() == "(") {
    context->AddTrailingMetadata("x-tide-error-code",
                                 std::to_string(static_cast<int>(ErrorCode::kInvalidArgument)));
    return {grpc::StatusCode::INVALID_ARGUMENT, "cannot search for this: missing )"};
  }
  if (!logs_.contains(key)) {
    return {grpc::StatusCode::NOT_FOUND, "no such log"};
  }
  size_t offset = request->offset();
  if (request->tail_lines() >= 0) {
    offset = OffsetOfTail(logs_[key].text, request->tail_lines());
  }
  bool caught_up = false;
  while (!context->IsCancelled()) {
    if (away_) {
      return {grpc::StatusCode::UNAVAILABLE, "the agent ends"};
    }
    const Log& log = logs_[key];
    if (offset < log.text.size()) {
      v1::LogChunk chunk = Chunk(log, std::max(offset, log.begin), *request);
      chunk.set_removed(std::max(offset, log.begin) - offset);
      offset = log.text.size();
      lock.unlock();
      writer->Write(chunk);
      lock.lock();
    } else if (!request->follow() || log.closed) {
      return grpc::Status::OK;
    } else if (!caught_up) {
      caught_up = true;
      v1::LogChunk chunk;
      chunk.set_offset(offset);
      chunk.set_next(offset);
      chunk.set_caught_up(true);
      lock.unlock();
      writer->Write(chunk);
      lock.lock();
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
  return grpc::Status::CANCELLED;
}

FakeAgent::FakeAgent() : service_(std::make_unique<Service>()) {}
FakeAgent::~FakeAgent() = default;
void FakeAgent::Append(const Key& key, const std::string& text, int64_t at) {
  service_->Append(key, text, at);
}
void FakeAgent::Remove(const Key& key, size_t bytes) {
  service_->Remove(key, bytes);
}
std::vector<v1::ReadLogRequest> FakeAgent::reads() const {
  return service_->reads();
}
void FakeAgent::Close(const Key& key) {
  service_->Close(key);
}
void FakeAgent::Leave() {
  service_->Leave();
}
void FakeAgent::Return() {
  service_->Return();
}
bool FakeAgent::WaitReads(int count) {
  return service_->WaitReads(count);
}
grpc::Service& FakeAgent::service() {
  return *service_;
}

}  // namespace tide::api::testing
