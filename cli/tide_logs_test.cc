// The program against a server: following output.

#include <poll.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"
#include "common/base/file.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

// A job with attempts 1 to `attempts`, running or finished.
json Job(int attempts, bool finished, int exit_code = 0) {
  json job = {{"id", "j-1"},
              {"state", finished ? "finished" : "running"},
              {"outcome", nullptr},
              {"exit_code", nullptr},
              {"attempts", json::array()}};
  if (finished) {
    job["outcome"] = exit_code == 0 ? "succeeded" : "failed";
    job["exit_code"] = exit_code;
  }
  for (int i = 1; i <= attempts; ++i) {
    job["attempts"].push_back({{"epoch", i}, {"start_reason", i > 1 ? "resumed" : "first"}});
  }
  return job;
}

FakeReply Lines(const std::string& text, bool break_off = false) {
  FakeReply reply{.type = "text/plain"};
  reply.stream = [text](const FakeReply::Write& write) { write(text); };
  reply.break_off = break_off;
  return reply;
}

bool Asks(const FakeRequest& request, const std::string& what) {
  return ("&" + request.query + "&").find("&" + what + "&") != std::string::npos;
}

}  // namespace

TEST_CASE("logs asks for what it was told to") {
  FakeServer server;
  server.OnGet("/v1/jobs/train", Job(2, true).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) { return Lines("a\nb\n"); });
  const auto run =
      RunTide({"logs", "train", "--rank", "3", "--attempt", "1", "--tail", "2"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "a\nb\n");
  CHECK(server.Requests().back().query == "attempt=1&rank=3&tail=2");
  static_cast<void>(RunTide({"logs", "train", "--rank", "all"}, Using(server)));
  CHECK(server.Requests().back().query == "rank=all");
}

TEST_CASE("a broken connection loses and repeats nothing") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest&) {
    const int call = ++calls;
    if (call == 1) {
      return Lines("one\ntw", true);
    }
    return call == 2 ? Problem(503, "unavailable", "restarting") : Lines("one\ntwo\nthree\n");
  });
  const auto run = RunTide({"logs", "-f", "j-1"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "one\ntwo\nthree\n");
  CHECK(run.err.find("reconnecting") != std::string::npos);
}

TEST_CASE("logs passes on what chooses lines") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(2, true).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) { return Lines("[0] a\n[3] b\n"); });
  const auto run = RunTide({"logs",
                            "j-1",
                            "--rank",
                            "0,3-7",
                            "--attempt",
                            "all",
                            "--since",
                            "10m",
                            "--until",
                            "2026-01-31T12:00:00Z",
                            "--grep",
                            "lo+s",
                            "-i",
                            "-F",
                            "--timestamps"},
                           Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "rank 0 | a\nrank 3 | b\n");
  CHECK(server.Requests().back().query ==
        "attempt=all&grep=lo+s&ignore_case=true&literal=true&rank=0,3-7&since=10m&timestamps=true"
        "&until=2026-01-31T12:00:00Z");
}

TEST_CASE("logs refuses what makes no sense") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--rank", "3,"},
                                             {"--rank", "1-2-3"},
                                             {"--rank", "x"},
                                             {"--rank", ""},
                                             {"--rank", "99999999999"},
                                             {"--attempt", "0"},
                                             {"--attempt", "some"},
                                             {"--since", "10"},
                                             {"--since", "yesterday"},
                                             {"--until", "m"},
                                             {"-i"},
                                             {"-F"},
                                             {"--download", "d", "-f"},
                                             {"--download", "d", "--grep", "x"},
                                             {"--download", "d", "--tail", "1"}}) {
    std::vector<std::string> argv = {"logs", "j-1"};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto run = RunTide(argv, Using(server));
    INFO(words[0] << " " << words.back() << ": " << run.err);
    CHECK(run.exit_code == 2);
  }
  CHECK(server.Requests().empty());
}

TEST_CASE("a broken connection goes on at the byte where it broke") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest& request) {
    FakeReply reply = Lines(calls == 0 ? "two\nth" : "ree\n", calls == 0);
    if (++calls == 1) {
      CHECK(Asks(request, "tail=2"));
      reply.headers = {{"Tide-Log-Offset", "4"}};
      return reply;
    }
    CHECK(Asks(request, "offset=10"));
    CHECK_FALSE(Asks(request, "tail=2"));
    reply.headers = {{"Tide-Log-Offset", "10"}};
    return reply;
  });
  const auto run = RunTide({"logs", "-f", "j-1", "--tail", "2"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "two\nthree\n");
  CHECK(run.err.find("lines may be missing") == std::string::npos);
}

TEST_CASE("what the server keeps no more is said, and not counted") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest& request) {
    FakeReply reply = Lines(calls == 0 ? "abc" : "xyz\n", calls == 0);
    reply.headers = {{"Tide-Log-Offset", ++calls == 1 ? "1000" : "5000"}};
    CHECK(Asks(request, calls == 1 ? "rank=0" : "offset=1003"));
    return reply;
  });
  const auto run = RunTide({"logs", "-f", "j-1"}, Using(server));
  CHECK(run.out == "abcxyz\n");
  CHECK(run.err.find("--- 1000 bytes of older output are kept no more ---") != std::string::npos);
  CHECK(run.err.find("--- 3997 bytes of older output are kept no more ---") != std::string::npos);
}

TEST_CASE("lines of several ranks come once each, over a broken connection") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  const std::string first =
      "[0] 2026-01-31T12:00:01.000Z a\n[1] 2026-01-31T12:00:02.000Z b\n"
      "[1] 2026-01-31T12:00:02.000Z b\n";
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest& request) {
    CHECK(Asks(request, "timestamps=true"));
    if (++calls == 1) {
      return Lines(first + "[0] 2026-01-31T12:00:03.000Z ha", true);
    }
    CHECK(Asks(request, "since=2026-01-31T12:00:01.000Z"));
    return Lines(first + "[0] 2026-01-31T12:00:03.000Z half\n");
  });
  const auto run = RunTide({"logs", "-f", "j-1", "--rank", "all"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "rank 0 | a\nrank 1 | b\nrank 1 | b\nrank 0 | half\n");
  CHECK(run.err.find("lines may be missing") == std::string::npos);
}

TEST_CASE("on a terminal a progress bar is one line, unless it is wanted raw") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) { return Lines("\r10%\r90%\n"); });
  const auto show = [&](std::vector<std::string> argv, unsigned short columns) {
    auto settings = Using(server);
    settings.columns = columns;
    return RunTide(argv, settings).out;
  };
  CHECK(show({"logs", "j-1"}, 0) == "\r10%\r90%\n");
  CHECK(show({"logs", "j-1"}, 80).find("10%") == std::string::npos);
  CHECK(show({"logs", "j-1", "--raw"}, 80).find("10%\r90%") != std::string::npos);
}

TEST_CASE("logs are copied into files, one for each attempt and rank, and go on where they broke") {
  FakeServer server;
  json job = Job(2, true);
  job["spec"] = {{"resources", {{"nodes", 1}, {"ranks_per_node", 2}}}};
  server.OnGet("/v1/jobs/j-1", job.dump());
  std::atomic<int> breaks = 1;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest& request) {
    const bool second = Asks(request, "offset=5");
    const bool break_off = Asks(request, "rank=1") && breaks-- > 0;
    FakeReply reply = Lines(break_off ? "01234" : (second ? "56789" : "0123456789"), break_off);
    reply.headers = {{"Tide-Log-Offset", second ? "5" : "0"}};
    return reply;
  });
  std::string folder = "/tmp/tide-download-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto run =
      RunTide({"logs", "j-1", "--attempt", "all", "--download", folder + "/new"}, Using(server));
  INFO(run.err);
  CHECK(run.exit_code == 0);
  std::string listed;
  for (const char* name : {"attempt-1.rank-00000",
                           "attempt-1.rank-00001",
                           "attempt-2.rank-00000",
                           "attempt-2.rank-00001"}) {
    const std::string path = folder + "/new/j-1." + name + ".log";
    CHECK(tide::ReadFile(path).value_or("none") == "0123456789");
    listed += path + "\n";
  }
  CHECK(run.out == listed);
  CHECK(std::distance(std::filesystem::directory_iterator(folder + "/new"), {}) == 4);
  const size_t asked = server.Requests().size();
  CHECK(RunTide({"logs", "j-1", "--attempt", "2", "--download", folder + "/new"}, Using(server))
            .exit_code == 0);
  CHECK(server.Requests().size() == asked + 1);  // for the job only
  CHECK(RunTide({"logs", "j-1", "--attempt", "3", "--download", folder}, Using(server)).exit_code ==
        3);
  CHECK(RunTide({"logs", "j-1", "--rank", "2", "--download", folder}, Using(server)).exit_code ==
        3);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a job may be quiet for longer than the server may be away") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest&) {
    if (++calls > 1) {
      return Lines("one\ntwo\n");
    }
    FakeReply reply{.type = "text/plain", .break_off = true};
    reply.stream = [](const FakeReply::Write& write) {
      write("one\n");
      ::poll(nullptr, 0, 1200);  // the silence itself
    };
    return reply;
  });
  const auto run = RunTide({"logs", "-f", "j-1", "--timeout", "1s"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "one\ntwo\n");
}

TEST_CASE("a server that only ever breaks off is given up") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) { return Lines("", true); });
  const auto run = RunTide({"logs", "-f", "j-1", "--timeout", "700ms"}, Using(server));
  CHECK(run.exit_code == 6);
  CHECK(run.err.find("the log broke off; the job may go on") != std::string::npos);
}

TEST_CASE("after a break a tail goes on with new lines only") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, true).dump());
  std::atomic<int> calls = 0;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest& request) {
    if (++calls == 1) {
      CHECK(Asks(request, "tail=1"));
      return Lines("two\n", true);
    }
    CHECK(Asks(request, "tail=0"));
    return Lines("three\n");
  });
  const auto run = RunTide({"logs", "-f", "j-1", "--tail", "1"}, Using(server));
  CHECK(run.out == "two\nthree\n");
  CHECK(run.err.find("lines may be missing") != std::string::npos);
}

TEST_CASE("following goes over a suspension and returns the job's own code") {
  FakeServer server;
  std::atomic<int> looks = 0;
  server.On("GET", "/v1/jobs/j-1", [&](const FakeRequest&) {
    const int look = ++looks;
    json job = Job(look < 4 ? 1 : 2, look > 4, 3);
    if (look == 2 || look == 3) {
      job["state"] = "queued";
      job["reasons"] = {{{"code", "order.ahead"}, {"message", "j-2 goes first"}}};
    }
    return FakeReply{.body = job.dump()};
  });
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest& request) {
    return Lines(Asks(request, "attempt=1") ? "first\n" : "second\n");
  });
  const auto run = RunTide({"logs", "-f", "j-1", "--exit-code"}, Using(server));
  CHECK(run.exit_code == 3);
  CHECK(run.out == "first\nsecond\n");
  CHECK(run.err.find("--- j-1 is queued: j-2 goes first ---\n--- attempt 2 (resumed) ---\n") !=
        std::string::npos);
}

TEST_CASE("our own failures are 125 where the job's code is returned") {
  FakeServer server;
  CHECK(RunTide({"logs", "j-1", "--exit-code"}, Using(server)).exit_code == 125);
  CHECK(RunTide({"logs", "j-1"}, Using(server)).exit_code == 3);
  server.OnGet("/v1/jobs/j-2", Job(1, true).dump());
  CHECK(RunTide({"logs", "j-2"}, Using(server)).exit_code == 3);  // no log
}

TEST_CASE("run --wait returns what the job returned") {
  FakeServer server;
  server.On("POST", "/v1/jobs", [](const FakeRequest&) {
    return FakeReply{.status = 201, .body = Job(0, false).dump()};
  });
  server.OnGet("/v1/jobs/j-1", Job(1, true, 42).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) { return Lines("hello\n"); });
  CHECK(RunTide({"run", "--wait", "--", "true"}, Using(server)).exit_code == 42);
  const auto followed = RunTide({"run", "--follow", "--wait", "--", "true"}, Using(server));
  CHECK(followed.exit_code == 42);
  CHECK(followed.out == "j-1\nhello\n");
  CHECK(RunTide({"run", "--wait", "--", "python", "none.py"}, Using(server)).exit_code == 125);
}

TEST_CASE("Ctrl-C leaves the job alone and says so") {
  FakeServer server;
  server.OnGet("/v1/jobs/j-1", Job(1, false).dump());
  std::promise<void> following;
  server.On("GET", "/v1/jobs/j-1/logs", [&](const FakeRequest&) {
    FakeReply reply{.type = "text/plain"};
    reply.stream = [&](const FakeReply::Write& write) {
      write("step 1\n");
      following.set_value();
      while (write("")) {
        std::this_thread::yield();
      }
    };
    return reply;
  });
  TideProcess process({"logs", "-f", "j-1"}, Using(server));
  following.get_future().wait();
  process.Interrupt();
  const auto run = process.Wait();
  CHECK(run.exit_code == 130);
  CHECK(run.err.find("j-1 goes on. End it: tide cancel j-1\n") != std::string::npos);
}
