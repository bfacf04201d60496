#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "api/testing/fake_upstream.h"
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
  void Append(const Key& key, const std::string& text);
  void Close(const Key& key);
  bool WaitReads(int count);

  grpc::Status ReadLog(grpc::ServerContext* context,
                       const v1::ReadLogRequest* request,
                       grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  struct Log {
    std::string text;
    bool closed = false;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Log> logs_;
  int reads_ = 0;
};

void FakeAgent::Service::Append(const Key& key, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  logs_[key].text += text;
  logs_[key].closed = false;
  changed_.notify_all();
}

void FakeAgent::Service::Close(const Key& key) {
  const std::scoped_lock lock(mutex_);
  logs_[key].closed = true;
  changed_.notify_all();
}

bool FakeAgent::Service::WaitReads(int count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return reads_ >= count; });
}

grpc::Status FakeAgent::Service::ReadLog(grpc::ServerContext* context,
                                         const v1::ReadLogRequest* request,
                                         grpc::ServerWriter<v1::LogChunk>* writer) {
  const Key key{request->job_id(), request->epoch(), request->task(), request->rank()};
  std::unique_lock lock(mutex_);
  ++reads_;
  changed_.notify_all();
  if (!logs_.contains(key)) {
    return {grpc::StatusCode::NOT_FOUND, "no such log"};
  }
  size_t offset = request->offset();
  if (request->tail_lines() >= 0) {
    offset = OffsetOfTail(logs_[key].text, request->tail_lines());
  }
  while (!context->IsCancelled()) {
    const Log& log = logs_[key];
    if (offset < log.text.size()) {
      v1::LogChunk chunk;
      chunk.set_offset(offset);
      chunk.set_data(log.text.substr(offset));
      offset = log.text.size();
      lock.unlock();
      writer->Write(chunk);
      lock.lock();
    } else if (!request->follow() || log.closed) {
      return grpc::Status::OK;
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
  return grpc::Status::CANCELLED;
}

FakeAgent::FakeAgent() : service_(std::make_unique<Service>()) {}
FakeAgent::~FakeAgent() = default;
void FakeAgent::Append(const Key& key, const std::string& text) {
  service_->Append(key, text);
}
void FakeAgent::Close(const Key& key) {
  service_->Close(key);
}
bool FakeAgent::WaitReads(int count) {
  return service_->WaitReads(count);
}
grpc::Service& FakeAgent::service() {
  return *service_;
}

}  // namespace tide::api::testing
