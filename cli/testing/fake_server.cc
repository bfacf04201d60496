#include "cli/testing/fake_server.h"

#include <httplib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace tide::cli::testing {

struct FakeServer::Impl {
  httplib::Server http;
  int port = 0;
  std::thread thread;
  std::map<std::string, Handler> handlers;  // by "GET /path"
  Mutex mutex;
  std::vector<FakeRequest> requests TIDE_GUARDED_BY(mutex);

  void Answer(const httplib::Request& from, httplib::Response& to) {
    FakeRequest request{from.method, from.path, "", from.body, {}};
    for (const auto& [key, value] : from.params) {
      request.query += (request.query.empty() ? "" : "&") + key + "=" + value;
    }
    for (const auto& [key, value] : from.headers) {
      std::string name = key;
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
      request.headers[name] = value;
    }
    {
      const MutexLock lock(mutex);
      requests.push_back(request);
    }
    const auto handler = handlers.find(from.method + " " + from.path);
    const FakeReply reply = handler == handlers.end()
                                ? Problem(404, "not_found", "there is no " + from.path)
                                : handler->second(request);
    to.status = reply.status;
    for (const auto& [name, value] : reply.headers) {
      to.set_header(name, value);
    }
    if (!reply.stream) {
      to.set_content(reply.body, reply.type.c_str());
      return;
    }
    to.set_chunked_content_provider(reply.type, [reply](size_t, httplib::DataSink& sink) {
      reply.stream([&](std::string_view piece) {
        return sink.is_writable() && (piece.empty() || sink.write(piece.data(), piece.size()));
      });
      if (reply.break_off) {
        return false;
      }
      sink.done();
      return true;
    });
  }
};

FakeServer::FakeServer(int port) : impl_(std::make_unique<Impl>()) {
  const auto answer = [this](const httplib::Request& from, httplib::Response& to) {
    impl_->Answer(from, to);
  };
  impl_->http.Get(".*", answer);
  impl_->http.Post(".*", answer);
  impl_->http.Put(".*", answer);
  impl_->http.Delete(".*", answer);
  impl_->port = port;
  if (port == 0) {
    impl_->port = impl_->http.bind_to_any_port("127.0.0.1");
  } else {
    TIDE_CHECK(impl_->http.bind_to_port("127.0.0.1", port), "the port is free");
  }
  impl_->thread = std::thread([this] { impl_->http.listen_after_bind(); });
}

FakeServer::~FakeServer() {
  while (!impl_->http.is_running()) {
    std::this_thread::yield();
  }
  impl_->http.stop();
  impl_->thread.join();
}

void FakeServer::On(const std::string& method, const std::string& path, Handler handler) {
  impl_->handlers[method + " " + path] = std::move(handler);
}

void FakeServer::OnGet(const std::string& path, const std::string& body) {
  On("GET", path, [body](const FakeRequest&) { return FakeReply{.body = body}; });
}

std::string FakeServer::url() const {
  return "http://127.0.0.1:" + std::to_string(impl_->port);
}

std::vector<FakeRequest> FakeServer::Requests() const {
  const MutexLock lock(impl_->mutex);
  return impl_->requests;
}

FakeReply Problem(int status, const std::string& code, const std::string& detail) {
  const nlohmann::json body = {{"type", "urn:tide:problem:" + code},
                               {"title", "Refused"},
                               {"status", status},
                               {"detail", detail},
                               {"code", code},
                               {"errors", nlohmann::json::array()},
                               {"request_id", "r1"},
                               {"retryable", status == 503}};
  return {.status = status, .body = body.dump(), .type = "application/problem+json"};
}

}  // namespace tide::cli::testing
