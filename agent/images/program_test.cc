#include "agent/images/program.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

namespace tide::agent {
namespace {

Fd NewEvent(unsigned value = 0) {
  return Fd(::eventfd(value, EFD_CLOEXEC));
}

Program Shell(const std::string& script, size_t output_max = 1000) {
  return {.argv = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin"},
          .output_max = output_max,
          .each_second = {}};
}

TEST_CASE("a command's output, errors and status come back") {
  const Fd event = NewEvent();
  const auto good = RunProgram(Shell("echo out; echo err >&2"), event);
  REQUIRE(good);
  CHECK(good->ok());
  CHECK(good->output == "out\n");
  CHECK(good->errors == "err\n");
  const auto bad = RunProgram(Shell("exit 3"), event);
  REQUIRE(bad);
  CHECK_FALSE(bad->ok());
  CHECK(WEXITSTATUS(bad->status) == 3);
}

TEST_CASE("a command inherits nothing but what it is given") {
  const auto env =
      RunProgram(Shell("env | grep -v ^PWD= | grep -v ^_= | grep -v ^SHLVL="), NewEvent());
  REQUIRE(env);
  CHECK(env->output == "PATH=/usr/bin:/bin\n");
}

TEST_CASE("a command that is called off ends with all its children") {
  const Fd event = NewEvent(1);
  const auto ended = RunProgram(Shell("sleep 1000 & echo $!; wait"), event);
  REQUIRE(ended);
  CHECK(ended->called_off);
  CHECK_FALSE(ended->ok());
}

TEST_CASE("a command is given up when it is not worth waiting for") {
  Program slow = Shell("sleep 1000");
  int looks = 0;
  slow.each_second = [&] { return ++looks < 2; };
  const auto ended = RunProgram(slow, NewEvent());
  REQUIRE(ended);
  CHECK(ended->given_up);
  CHECK_FALSE(ended->ok());
}

TEST_CASE("a command that leaves a child behind does not hold its caller up, nor the child") {
  const auto left = RunProgram(Shell("sleep 1000 & echo $!"), NewEvent());
  REQUIRE(left);
  CHECK(left->ok());
  CHECK(std::stoi(left->output) > 0);
}

TEST_CASE("too much output ends a command, errors are cut to their end") {
  const auto much = RunProgram(Shell("yes", 100), NewEvent());
  REQUIRE_FALSE(much);
  CHECK(much.error().code == ErrorCode::kExhausted);
  const auto errors = RunProgram(
      Shell("i=0; while [ $i -lt 20000 ]; do echo line$i >&2; i=$((i+1)); done"), NewEvent());
  REQUIRE(errors);
  CHECK_THAT(errors->errors, Catch::EndsWith("line19999\n"));
  CHECK(errors->errors.size() < 64U << 10U);
}

TEST_CASE("a program that is not there is an error") {
  const auto none = RunProgram(
      {.argv = {"/no/such"}, .environment = {}, .output_max = 1, .each_second = {}}, NewEvent());
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, Catch::Contains("is it installed"));
}

}  // namespace
}  // namespace tide::agent
