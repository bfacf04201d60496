#include "api/gate/connection.h"

#include <exception>
#include <utility>

#include "api/gate/reply_text.h"

namespace tide::api {
namespace {

class ConnectionSink final : public BodySink {
 public:
  ConnectionSink(Socket& socket, bool chunks, std::chrono::milliseconds stuck)
      : socket_(socket), chunks_(chunks), stuck_(stuck) {}

  bool Write(std::string_view data) override {
    // An empty chunk would end the body.
    whole_ = whole_ && (data.empty() || Put(chunks_ ? Chunk(data) : data));
    return whole_;
  }
  bool Alive() override { return whole_ && !socket_.PeerLeft(); }
  [[nodiscard]] bool End() { return whole_ && (!chunks_ || Put(kLastChunk)); }

 private:
  bool Put(std::string_view data) { return socket_.WriteAll(data, stuck_); }
  bool Put(const std::string& data) { return Put(std::string_view(data)); }

  Socket& socket_;
  const bool chunks_;
  const std::chrono::milliseconds stuck_;
  bool whole_ = true;
};

// Sends what the client takes now; the gate sends the rest.
void Send(Connection& connection, std::string text) {
  connection.output = std::move(text);
  connection.sent = 0;
  Socket::Moved moved;
  while (moved.wait == Socket::Wait::kNothing && connection.sent < connection.output.size()) {
    moved = connection.socket.Write(std::string_view(connection.output).substr(connection.sent));
    connection.sent += moved.bytes;
  }
  connection.broken = moved.wait == Socket::Wait::kOver;
  connection.phase = Phase::kFlush;
}

bool SendStream(Connection& connection,
                const Reply& reply,
                const ReplyForm& form,
                std::chrono::milliseconds stuck) {
  if (!connection.socket.WriteAll(ReplyText(reply, form), stuck)) {
    return false;
  }
  ConnectionSink sink(connection.socket, form.chunks, stuck);
  try {
    reply.stream(sink);
  } catch (const std::exception&) {
    return false;  // the service has logged it; the client sees a body without an end
  }
  return sink.End();
}

void Admit(Connection& connection, Service& service) {
  Incoming& incoming = *connection.incoming;
  const auto most = service.Admit(incoming.head, connection.address);
  if (!most) {
    AnswerAndClose(connection, most.error());
    return;
  }
  incoming.admitted = true;
  incoming.body.Limit(*most);
  connection.phase = Phase::kBody;
  // Nothing was sent since the request began, so that there is room.
  connection.broken =
      incoming.head.expects_continue && connection.socket.Write(kContinue).bytes == 0;
}

}  // namespace

void Exchange(Connection& connection, Service& service, std::chrono::milliseconds stuck) {
  const Incoming& incoming = *connection.incoming;
  if (!incoming.admitted && incoming.body.state() == BodyReader::State::kMore) {
    Admit(connection, service);
    return;
  }
  const auto taken = std::exchange(connection.incoming, nullptr);
  ReplyForm form = ReplyForm::For(taken->head);
  const Reply reply =
      service.Answer({std::move(taken->head), taken->body.TakeBody(), connection.address});
  form.closes = form.closes || (reply.stream && !form.chunks);
  connection.closes = form.closes;
  if (!reply.stream || !form.has_body) {
    Send(connection, ReplyText(reply, form));
    return;
  }
  connection.broken = !SendStream(connection, reply, form, stuck);
  connection.phase = Phase::kFlush;
}

void AnswerAndClose(Connection& connection, const Reply& reply) {
  ReplyForm form = connection.incoming ? ReplyForm::For(connection.incoming->head) : ReplyForm();
  form.closes = true;
  connection.closes = true;
  Send(connection, ReplyText(reply, form));
}

}  // namespace tide::api
