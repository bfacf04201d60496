#include "cli/failure.h"

#include <catch2/catch.hpp>

using namespace tide;
using namespace tide::cli;

TEST_CASE("each status has its exit code") {
  struct Case {
    int status;
    const char* code;
    int exit_code;
  };
  const auto each = GENERATE(Case{422, "invalid_argument", kExitUsage},
                             Case{422, "never_fits", kExitNeverFits},
                             Case{400, "", kExitUsage},
                             Case{401, "unauthenticated", kExitNotAllowed},
                             Case{403, "permission_denied", kExitNotAllowed},
                             Case{404, "not_found", kExitNotFound},
                             Case{409, "conflict", kExitConflict},
                             Case{412, "", kExitConflict},
                             Case{429, "exhausted", kExitUnreachable},
                             Case{503, "unavailable", kExitUnreachable},
                             Case{504, "deadline_exceeded", kExitUnreachable},
                             Case{500, "internal", kExitFailed});
  CAPTURE(each.status, each.code);
  CHECK(ExitCodeFor(each.status, each.code) == each.exit_code);
}

TEST_CASE("a problem becomes one line") {
  const auto failure = FailureFromReply(
      404, R"({"code":"not_found","detail":"there is no job j-9","title":"Not found"})");
  CHECK(failure.exit_code == kExitNotFound);
  CHECK(FormatFailure(failure) == "tide: there is no job j-9\n");
  CHECK(FormatFailure(FailureFromReply(500, R"({"detail":"disk full","request_id":"abc"})")) ==
        "tide: disk full [request abc]\n");
}

TEST_CASE("mistakes in a spec become one line each") {
  const auto failure =
      FailureFromReply(422,
                       R"({"code":"invalid_argument","detail":"2 mistakes","errors":[
        {"pointer":"/nodes","line":4,"column":1,"message":"unknown key","suggestion":"try x"},
        {"pointer":"/name","line":null,"column":null,"message":"name is bad","suggestion":null}]})");
  CHECK(failure.exit_code == kExitUsage);
  CHECK(FormatFailure(failure, "a.yaml") ==
        "a.yaml:4:1: unknown key (try x)\na.yaml: name is bad\n");
}

TEST_CASE("an answer that is no problem document is quoted harmlessly") {
  CHECK(FormatFailure(FailureFromReply(502, "<html>\x1b[31m")) ==
        "tide: the server answered with status 502: <html>?[31m\n");
  CHECK(FormatFailure(FailureFromReply(500, "")) == "tide: the server answered with status 500\n");
  CHECK(FailureFromReply(404, "[1]").exit_code == kExitNotFound);
  CHECK(FailureFromReply(404, R"({"detail":7,"errors":"x"})").exit_code == kExitNotFound);
}
