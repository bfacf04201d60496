#include "cli/client.h"

#include <httplib.h>
#include <netinet/tcp.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <thread>

namespace tide::cli {
namespace {

constexpr Duration kFirstPause = Duration::Millis(200);  // doubles from try to try
constexpr Duration kLongestPause = Duration::Seconds(2);
constexpr int kProbeAfterS = 15;  // of silence, by TCP keep-alive

std::string Hex(const unsigned char* bytes, size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += kDigits[bytes[i] >> 4U];
    out += kDigits[bytes[i] & 0xFU];
  }
  return out;
}

void ProbeSilentPeer(int socket) {
  const int on = 1;
  const int after = kProbeAfterS;
  const int probes = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &after, sizeof after);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void Trust(httplib::Client& http, const Server& server) {
  if (!server.ca.empty()) {
    http.set_ca_cert_path(server.ca.c_str());
  }
}

void SetTimeout(httplib::Client& http, Duration timeout) {
  const auto span = std::chrono::milliseconds(std::max<int64_t>(timeout.millis(), 1));
  http.set_connection_timeout(span);
  http.set_read_timeout(span);
  http.set_write_timeout(span);
}

httplib::Headers HeadersFor(const Server& server) {
  // Compressed answers would be held back until a block is full.
  httplib::Headers headers = {{"Accept-Encoding", "identity"}};
  if (!server.token.empty()) {
    headers.emplace("Authorization", "Bearer " + server.token);
  }
  return headers;
}

bool NeverSent(httplib::Error error) {
  return error == httplib::Error::Connection || error == httplib::Error::ConnectionTimeout;
}

// Only what another try may change: not certificates, not a bad address.
bool MayPass(httplib::Error error) {
  return NeverSent(error) || error == httplib::Error::Read || error == httplib::Error::Write;
}

// Says why no connection by TLS was made, and what to do; "" where that was not the reason.
std::string ExplainTls(const httplib::Client& http, httplib::Error error, const Server& server) {
  if (error == httplib::Error::SSLConnection) {
    return "it does not speak HTTPS, or not TLS 1.3; where it speaks plain HTTP, use http://";
  }
  if (error == httplib::Error::SSLLoadingCerts) {
    return "the authority " + server.ca + " is no PEM file with certificates";
  }
  if (error != httplib::Error::SSLServerVerification) {
    return "";
  }
  const long verdict = http.get_openssl_verify_result();
  if (verdict == X509_V_OK) {
    return "its certificate is for another name; use a name that is in the certificate";
  }
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED) {
    return "its certificate has expired; its operator must renew it";
  }
  if (verdict == X509_V_ERR_CERT_NOT_YET_VALID) {
    return "its certificate is not valid yet; compare the clocks of both machines";
  }
  return std::string("its certificate is not trusted here (") +
         X509_verify_cert_error_string(verdict) +
         "); name the authority's certificate with --ca FILE, TIDE_CA, or `ca` in the profile";
}

std::string Explain(httplib::Error error) {
  if (error == httplib::Error::Connection) {
    return "no server answers at this address";
  }
  if (error == httplib::Error::Read || error == httplib::Error::ConnectionTimeout) {
    return "no complete answer in time";
  }
  return httplib::to_string(error);
}

// Returns why a request brought no whole answer.
Failure NoConnection(const Client& client, const httplib::Client& http, httplib::Error error) {
  const std::string tls = ExplainTls(http, error, client.server());
  if (tls.empty()) {
    return client.Unreachable(Explain(error));
  }
  return {
      kExitUnreachable,
      "no connection to " + client.server().url + " (from " + client.server().origin + "): " + tls,
      {},
      false};
}

}  // namespace

std::string UrlStep(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += "%" + Hex(&byte, 1);
    }
  }
  return out;
}

std::string NewIdempotencyKey() {
  std::array<unsigned char, 16> bytes{};
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + have, bytes.size() - have, 0);
    have += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return Hex(bytes.data(), bytes.size());
}

Client::Client(Server server, Patience patience)
    : server_(std::move(server)), patience_(patience) {}

Failure Client::Unreachable(const std::string& why) const {
  return {kExitUnreachable,
          "cannot reach " + server_.url + " (from " + server_.origin + "): " + why +
              "; start a server with `tide dev`, or name another with --server or TIDE_SERVER",
          {},
          true};
}

Client::Attempt Client::Try(Method method,
                            const std::string& path,
                            const PostBody& body,
                            Duration left) const {
  httplib::Client http(server_.url);
  Trust(http, server_);
  http.set_url_encode(false);
  SetTimeout(http, left);
  httplib::Headers headers = HeadersFor(server_);
  const bool safe = method != Method::kPost || !body.idempotency_key.empty();
  if (!body.idempotency_key.empty()) {
    headers.emplace("Idempotency-Key", body.idempotency_key);
  }
  const auto send = [&] {
    switch (method) {
      case Method::kGet:
        return http.Get(path, headers);
      case Method::kPost:
        return http.Post(path, headers, body.text, body.type);
      case Method::kPut:
        return http.Put(path, headers, body.text, body.type);
      case Method::kPatch:
        return http.Patch(path, headers, body.text, body.type);
      case Method::kDelete:
        break;
    }
    return http.Delete(path, headers);
  };
  auto result = send();
  if (!result) {
    const bool again = MayPass(result.error()) && (safe || NeverSent(result.error()));
    return {std::unexpected(NoConnection(*this, http, result.error())), again, false};
  }
  if (result->status >= 200 && result->status < 300) {
    return {std::move(result->body), false, true};
  }
  Failure failure = FailureFromReply(result->status, result->body);
  // A limit of jobs stays reached, however often it is asked.
  const bool again = result->status == 503 || (result->status == 429 && failure.retryable);
  return {std::unexpected(std::move(failure)), again, true};
}

Answer<std::string> Client::Call(Method method,
                                 const std::string& path,
                                 const PostBody& body) const {
  const int64_t started = MonotonicNanos();
  const int64_t deadline = started + patience_.timeout.nanos();
  Duration pause = kFirstPause;
  while (true) {
    Attempt attempt = Try(method, path, body, Duration::Nanos(deadline - MonotonicNanos()));
    answered_ = answered_ || attempt.answered;
    const int64_t end =
        answered_ ? deadline : std::min(deadline, started + patience_.first_contact.nanos());
    if (attempt.answer || !attempt.again || MonotonicNanos() + pause.nanos() >= end) {
      return std::move(attempt.answer);
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause.nanos()));
    pause = std::min(pause * 2, kLongestPause);
  }
}

Answer<std::string> Client::Get(const std::string& path) const {
  return Call(Method::kGet, path, {});
}

Answer<std::string> Client::Post(const std::string& path, const PostBody& body) const {
  return Call(Method::kPost, path, body);
}

Answer<std::string> Client::Put(const std::string& path, const PostBody& body) const {
  return Call(Method::kPut, path, body);
}

Answer<std::string> Client::Patch(const std::string& path, const PostBody& body) const {
  return Call(Method::kPatch, path, body);
}

Answer<std::string> Client::Delete(const std::string& path) const {
  return Call(Method::kDelete, path, {});
}

Client::Received Client::Receive(const StreamCall& call,
                                 const Sink& sink,
                                 const HeadSink& on_head) const {
  httplib::Client http(server_.url);
  Trust(http, server_);
  http.set_url_encode(false);
  SetTimeout(http, patience_.timeout);
  http.set_read_timeout(std::chrono::milliseconds(call.silence.millis()));
  http.set_socket_options(ProbeSilentPeer);
  httplib::Request request;
  request.method = call.body == nullptr ? "GET" : "POST";
  request.path = call.path;
  request.headers = HeadersFor(server_);
  if (call.body != nullptr) {
    request.body = call.body->text;
    request.headers.emplace("Content-Type", call.body->type);
  }
  Received received;
  request.response_handler = [&](const httplib::Response& response) {
    received.status = response.status;
    if (response.status == 200 && on_head) {
      on_head(response.get_header_value("Tide-Log-Offset"));
    }
    if (response.status == 200) {
      sink({});
    }
    return true;
  };
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    if (received.status == 200) {
      sink({data, size});
    } else {
      received.refusal.append(data, size);
    }
    return true;
  };
  const auto result = http.send(request);
  received.whole = static_cast<bool>(result);
  received.may_pass = !result && MayPass(result.error());
  if (!result) {
    received.failure = NoConnection(*this, http, result.error());
  }
  return received;
}

Answer<Client::StreamEnd> Client::Stream(const std::string& path,
                                         const Sink& sink,
                                         const HeadSink& on_head,
                                         Duration silence) const {
  const Received received = Receive({path, nullptr, silence}, sink, on_head);
  if (received.status == 503 || received.may_pass) {
    return StreamEnd::kBroken;
  }
  if (!received.whole) {
    return std::unexpected(received.failure);
  }
  if (received.status != 200) {
    return std::unexpected(FailureFromReply(received.status, received.refusal));
  }
  return StreamEnd::kComplete;
}

Answer<Client::StreamEnd> Client::PostStream(const std::string& path,
                                             const PostBody& body,
                                             const Sink& sink,
                                             Duration silence) const {
  const Received received = Receive({path, &body, silence}, sink, {});
  if (received.status == 0) {
    return std::unexpected(received.failure);
  }
  if (received.status != 200) {
    return std::unexpected(FailureFromReply(received.status, received.refusal));
  }
  return received.whole ? StreamEnd::kComplete : StreamEnd::kBroken;
}

KeptConnection::KeptConnection(const Server& server, Duration timeout)
    : server_(server), http_(std::make_unique<httplib::Client>(server.url)) {
  http_->set_url_encode(false);
  Trust(*http_, server_);
  SetTimeout(*http_, timeout);
  http_->set_keep_alive(true);
  http_->set_tcp_nodelay(true);
}
KeptConnection::~KeptConnection() = default;

KeptConnection::Reply KeptConnection::Post(const std::string& path,
                                           const std::string& body,
                                           const std::string& type) {
  const auto result = http_->Post(path, HeadersFor(server_), body, type);
  return result ? Reply{result->status, result->body} : Reply();
}

KeptConnection::Reply KeptConnection::Delete(const std::string& path) {
  const auto result = http_->Delete(path, HeadersFor(server_));
  return result ? Reply{result->status, result->body} : Reply();
}

void KeptConnection::Stop() {
  http_->stop();
}

}  // namespace tide::cli
