#include "agent/server/peer_service.h"

#include <grpcpp/grpcpp.h>

#include <fstream>

#include "agent/server/testing/peers.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {
namespace {

struct Served {
  TestDir dir;
  rpc::ClusterToken token{"0123456789abcdef"};
  Peer peer{dir, "n1", token};
  std::unique_ptr<tide::v1::AgentPeer::Stub> stub =
      tide::v1::AgentPeer::NewStub(rpc::Security().Connect(peer.address, {rpc::Role::kAgent, ""}));
  std::string log = peer.state_dir + "/tasks/7.2.0/logs/rank-00000.log";

  void Log(const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(log).parent_path());
    std::ofstream(log, std::ios::app) << text;
  }
  static tide::v1::ReadLogRequest Request() {
    tide::v1::ReadLogRequest request;
    request.set_job_id(7);
    request.set_epoch(2);
    request.set_tail_lines(-1);
    return request;
  }
  grpc::Status Read(const tide::v1::ReadLogRequest& request, std::string& text) {
    grpc::ClientContext context;
    token.Attach(context);
    context.set_wait_for_ready(true);
    const auto stream = stub->ReadLog(&context, request);
    tide::v1::LogChunk chunk;
    text.clear();
    while (stream->Read(&chunk)) {
      text += chunk.data();
    }
    return stream->Finish();
  }
  std::string Tail(int64_t lines) {
    tide::v1::ReadLogRequest request = Request();
    request.set_tail_lines(lines);
    std::string text;
    CHECK(Read(request, text).ok());
    return text;
  }
};

TEST_CASE("the last lines of a log") {
  Served served;
  served.Log("");
  CHECK(served.Tail(5).empty());
  served.Log("one\ntwo\nthree\n");
  CHECK(served.Tail(0).empty());
  CHECK(served.Tail(1) == "three\n");
  CHECK(served.Tail(2) == "two\nthree\n");
  CHECK(served.Tail(99) == "one\ntwo\nthree\n");
  CHECK(served.Tail(-1) == "one\ntwo\nthree\n");
  served.Log("four");
  CHECK(served.Tail(0).empty());
  CHECK(served.Tail(1) == "four");
  CHECK(served.Tail(2) == "three\nfour");
  served.Log("\n\n");
  CHECK(served.Tail(2) == "four\n\n");
}

TEST_CASE("lines longer than a chunk are found, too") {
  Served served;
  const std::string line = std::string(200'000, 'x') + "\n";
  served.Log("first\n" + line + line);
  CHECK(served.Tail(1) == line);
  CHECK(served.Tail(2) == line + line);
  CHECK(served.Tail(3) == "first\n" + line + line);
}

TEST_CASE("a log from an offset on") {
  Served served;
  served.Log("0123456789");
  tide::v1::ReadLogRequest request = Served::Request();
  request.set_offset(4);
  std::string text;
  CHECK(served.Read(request, text).ok());
  CHECK(text == "456789");
  request.set_offset(400);
  CHECK(served.Read(request, text).ok());
  CHECK(text.empty());
}

TEST_CASE("a log that is not here") {
  Served served;
  std::string text;
  CHECK(served.Read(Served::Request(), text).error_code() == grpc::StatusCode::NOT_FOUND);
  served.token = rpc::ClusterToken("wrong-wrong-wrong");
  CHECK(served.Read(Served::Request(), text).error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("following begins before the log does and ends when all was sent") {
  Served served;
  grpc::ClientContext context;
  served.token.Attach(context);
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  tide::v1::ReadLogRequest request = Served::Request();
  request.set_follow(true);
  const auto stream = served.stub->ReadLog(&context, request);
  tide::v1::LogChunk chunk;
  REQUIRE(stream->Read(&chunk));
  CHECK(chunk.caught_up());
  CHECK(chunk.data().empty());
  served.Log("one\n");
  REQUIRE(stream->Read(&chunk));
  CHECK(chunk.data() == "one\n");
  served.Log("two\n");
  served.peer.over = true;
  std::string rest;
  while (stream->Read(&chunk)) {
    CHECK(chunk.offset() == 4 + rest.size());
    rest += chunk.data();
  }
  CHECK(rest == "two\n");
  CHECK(stream->Finish().ok());
}

TEST_CASE("a reader that goes away ends its following") {
  Served served;
  served.Log("one\n");
  grpc::ClientContext context;
  served.token.Attach(context);
  context.set_wait_for_ready(true);
  tide::v1::ReadLogRequest request = Served::Request();
  request.set_follow(true);
  const auto stream = served.stub->ReadLog(&context, request);
  tide::v1::LogChunk chunk;
  REQUIRE(stream->Read(&chunk));
  context.TryCancel();
  CHECK_FALSE(stream->Read(&chunk));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  served.peer.Stop();  // would wait for a call that does not end
}

TEST_CASE("rounds of the agreement") {
  Served served;
  const auto pages = served.peer.AddPages(0, 1);
  RankPage rank(served.peer.RunDir() + "/page-0");
  rank.SetPhase(RankPhase::kTraining);
  rank.SetStep(8);
  tide::v1::AgreeRequest request;
  request.set_job_id(7);
  request.set_epoch(2);
  const auto agree = [&](int verb, int64_t step, tide::v1::AgreeResponse& response) {
    grpc::ClientContext context;
    served.token.Attach(context);
    context.set_wait_for_ready(true);
    request.set_verb(static_cast<tide::v1::AgreeVerb>(verb));
    request.set_at_step(step);
    request.set_deadline(77);
    return served.stub->Agree(&context, request, &response);
  };
  tide::v1::AgreeResponse response;
  REQUIRE(agree(tide::v1::AGREE_VERB_PROBE, -1, response).ok());
  CHECK(response.max_step() == 8);
  CHECK(response.all_attached());
  REQUIRE(agree(tide::v1::AGREE_VERB_ARM, 8, response).ok());
  CHECK_FALSE(response.all_below());
  REQUIRE(agree(tide::v1::AGREE_VERB_ARM, 9, response).ok());
  CHECK(response.all_below());
  REQUIRE(agree(tide::v1::AGREE_VERB_COMMIT, 9, response).ok());
  CHECK(response.committed_step() == 9);
  CHECK(rank.state() == 2);
  CHECK(rank.deadline() == 77);
  const int64_t before = SystemNow().unix_nanos();
  request.set_remaining_ms(5000);  // counts from here on, by this node's clock
  REQUIRE(agree(tide::v1::AGREE_VERB_COMMIT, 9, response).ok());
  CHECK(rank.deadline() >= before + 5'000'000'000);
  CHECK(rank.deadline() <= SystemNow().unix_nanos() + 5'000'000'000);
  pages->SetRanksGone(1);
  REQUIRE(agree(tide::v1::AGREE_VERB_PROBE, -1, response).ok());
  CHECK(response.ranks_gone() == 1);
  CHECK(served.peer.signals == 0);
  REQUIRE(agree(tide::v1::AGREE_VERB_SIGNAL, -1, response).ok());
  CHECK(served.peer.signals == 1);
  CHECK(served.peer.signalled == "7.2.0");
  served.peer.delivers = false;  // not answered: the leader asks again
  CHECK(agree(tide::v1::AGREE_VERB_SIGNAL, -1, response).error_code() ==
        grpc::StatusCode::UNAVAILABLE);

  CHECK(agree(0, -1, response).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(agree(17, -1, response).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  request.set_epoch(3);  // another attempt's pages are not touched
  CHECK(agree(tide::v1::AGREE_VERB_ARM, 50, response).error_code() == grpc::StatusCode::NOT_FOUND);
  served.token = rpc::ClusterToken("wrong-wrong-wrong");
  request.set_epoch(2);
  CHECK(agree(tide::v1::AGREE_VERB_PROBE, 0, response).error_code() ==
        grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace tide::agent
