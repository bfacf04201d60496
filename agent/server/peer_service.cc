#include "agent/server/peer_service.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "agent/runtime/task_folder.h"
#include "agent/server/deadline.h"
#include "agent/server/start_plan.h"
#include "common/base/file.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr auto kFollowPause = std::chrono::milliseconds(50);

// Offset at which the last `lines` lines begin.
uint64_t FindTail(int fd, uint64_t size, int64_t lines) {
  std::array<char, kChunkBytes> buffer{};
  uint64_t end = size;
  int64_t seen = -1;  // the newline that ends the last line does not count
  while (end > 0) {
    const uint64_t begin = end > buffer.size() ? end - buffer.size() : 0;
    const ssize_t n = ::pread(fd, buffer.data(), end - begin, static_cast<off_t>(begin));
    if (n <= 0) {
      return 0;
    }
    for (ssize_t i = n - 1; i >= 0; --i) {
      const bool last_byte = begin + static_cast<uint64_t>(i) == size - 1;
      if (buffer[static_cast<size_t>(i)] == '\n') {
        ++seen;
      } else if (last_byte) {
        seen = 0;  // an unfinished last line is a line
      }
      if (seen >= lines) {
        return begin + static_cast<uint64_t>(i) + 1;
      }
    }
    end = begin;
  }
  return 0;
}

class PeerService final : public tide::v1::AgentPeer::Service {
 public:
  explicit PeerService(PeerServiceOptions options) : options_(std::move(options)) {}

  grpc::Status Agree(grpc::ServerContext* context,
                     const tide::v1::AgreeRequest* request,
                     tide::v1::AgreeResponse* response) override {
    if (!options_.token.Matches(*context)) {
      return rpc::Unauthenticated();
    }
    if (request->verb() < tide::v1::AGREE_VERB_PROBE ||
        request->verb() > tide::v1::AGREE_VERB_SIGNAL) {
      return rpc::ToGrpc({ErrorCode::kInvalidArgument, "unknown verb"}, context);
    }
    const std::string key = TaskKey(IdOf(*request));
    const auto pages = options_.book.Find(key);
    if (!pages) {
      return rpc::ToGrpc({ErrorCode::kNotFound, "task " + key + " is not here"}, context);
    }
    const auto verb = static_cast<AgreeVerb>(request->verb());
    const int64_t deadline = LocalDeadline(request->deadline(), request->remaining_ms());
    const AgreeReply reply =
        pages->Hold({verb, request->at_step(), {}, request->round()}, deadline);
    if (verb == AgreeVerb::kSignal && reply.answered &&
        !options_.signal_task(IdOf(*request), request->deadline())) {
      return rpc::ToGrpc({ErrorCode::kUnavailable, "task " + key + " has no signal yet"}, context);
    }
    response->set_min_step(reply.min_step);
    response->set_max_step(reply.max_step);
    response->set_any_attached(reply.any_attached);
    response->set_all_attached(reply.all_attached);
    response->set_committed_step(reply.committed_step);
    response->set_all_below(reply.all_below);
    response->set_ranks_gone(reply.ranks_gone);
    response->set_step_ns(reply.step_ns);
    response->set_newest_round(reply.newest_round);
    return grpc::Status::OK;
  }

  grpc::Status Witness(grpc::ServerContext* context,
                       const tide::v1::WitnessRequest* request,
                       tide::v1::WitnessResponse* response) override {
    if (!options_.token.Matches(*context)) {
      return rpc::Unauthenticated();
    }
    response->set_alive(options_.is_alive(IdOf(*request), request->submitted_at()));
    return grpc::Status::OK;
  }

  grpc::Status ReadLog(grpc::ServerContext* context,
                       const tide::v1::ReadLogRequest* request,
                       grpc::ServerWriter<tide::v1::LogChunk>* writer) override {
    if (!options_.token.Matches(*context)) {
      return rpc::Unauthenticated();
    }
    const std::string key = TaskKey(IdOf(*request));
    const std::string path =
        options_.state_dir + "/tasks/" + key + "/logs/" + LogName(request->rank()) + ".log";
    Fd fd;
    uint64_t offset = request->offset();
    bool started = false;
    while (!context->IsCancelled()) {
      // Looked at before reading: what was written before the end is read after it.
      const bool over = options_.is_over(key);
      if (!fd.valid()) {
        fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      }
      if (fd.valid() && !started) {
        started = true;
        struct stat info{};
        if (request->tail_lines() >= 0 && ::fstat(fd.get(), &info) == 0) {
          offset = FindTail(fd.get(), static_cast<uint64_t>(info.st_size), request->tail_lines());
        }
      }
      bool sent = false;
      if (fd.valid() && !SendNew(fd.get(), offset, *writer, sent)) {
        return grpc::Status::OK;  // the reader went away
      }
      if (sent) {
        continue;
      }
      if (!request->follow() || over) {
        // A task that is over, or not here yet, has no output; the API knows which it is.
        return fd.valid() || over || request->follow()
                   ? grpc::Status::OK
                   : rpc::ToGrpc({ErrorCode::kNotFound,
                                  "no output of rank " + std::to_string(request->rank()) +
                                      " of task " + key + " here"},
                                 context);
      }
      std::this_thread::sleep_for(kFollowPause);  // tidy: poll, a file grows without telling
    }
    return grpc::Status::CANCELLED;
  }

 private:
  static bool SendNew(int fd,
                      uint64_t& offset,
                      grpc::ServerWriter<tide::v1::LogChunk>& writer,
                      bool& sent) {
    std::array<char, kChunkBytes> buffer{};
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n <= 0) {
      return true;
    }
    tide::v1::LogChunk chunk;
    chunk.set_offset(offset);
    chunk.set_data(buffer.data(), static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
    sent = true;
    return writer.Write(chunk);
  }

  const PeerServiceOptions options_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePeerService(PeerServiceOptions options) {
  return std::make_unique<PeerService>(std::move(options));
}

}  // namespace tide::agent
