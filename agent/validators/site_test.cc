#include "agent/validators/site.h"

#include <catch2/catch.hpp>

#include "agent/validators/suite.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

// Script that answers with its arguments as evidence.
constexpr const char* kEcho =
    "#!/bin/sh\n"
    R"(echo "{\"validator\":\"x\",\"verdict\":\"pass\",\"value\":1,\"unit\":\"\",)"
    R"(\"evidence\":\"got $*\",\"seconds\":1}")"
    "\n";

void AddProgram(const Folder& bin, const std::string& name, unsigned mode = 0755) {
  bin.Write("tide-validator-" + name, kEcho, mode);
}

void AddSiteFile(const Folder& bin, const std::string& name, const std::string& json) {
  bin.Write("tide-validator-" + name + ".json", json);
}

std::vector<SuiteEntry> Suite(const Folder& bin, std::string_view name) {
  auto suite = SuiteFor(name, bin.path(), "/data");
  REQUIRE(suite);
  return *suite;
}

const SuiteEntry* Find(const std::vector<SuiteEntry>& suite, std::string_view name) {
  for (const SuiteEntry& entry : suite) {
    if (entry.validator == name) {
      return &entry;
    }
  }
  return nullptr;
}

Verdict RunOne(const SuiteEntry& entry) {
  const auto verdicts = RunSuite({entry});
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].validator == entry.validator);
  return verdicts[0];
}

}  // namespace

TEST_CASE("a site's validator joins the suites of its tier") {
  const Folder bin;
  AddProgram(bin, "fans");
  CHECK(Suite(bin, "full").size() == 5);  // a program alone is in no suite
  AddSiteFile(bin, "fans", R"({"args": ["--most", "9000"], "timeout_s": 7, "tier": 2})");
  CHECK(Find(Suite(bin, "quick"), "fans") == nullptr);
  const auto full = Suite(bin, "full");
  REQUIRE(Find(full, "fans") != nullptr);
  CHECK(Find(full, "fans")->timeout == Duration::Seconds(7));
  const Verdict verdict = RunOne(*Find(full, "fans"));
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK(verdict.evidence == "got --most 9000");
  AddSiteFile(bin, "fans", R"({"tier": 1})");
  const auto quick = Suite(bin, "quick");
  REQUIRE(Find(quick, "fans") != nullptr);
  CHECK(RunOne(*Find(quick, "fans")).evidence == "got ");
}

TEST_CASE("a validator named by the scheduler runs with and without a file") {
  const Folder bin;
  AddProgram(bin, "fans");
  AddProgram(bin, "gpu-gemm");
  AddSiteFile(bin, "fans", R"({"args": ["--most", "9000"], "timeout_s": 7})");
  auto suite = Suite(bin, "quick");
  AddValidators({"fans", "gpu-gemm", "cpu", "../fans", "Fans"}, bin.path(), suite);
  REQUIRE(suite.size() == 6);
  CHECK(Find(suite, "fans")->timeout == Duration::Seconds(7));
  CHECK(RunOne(*Find(suite, "fans")).evidence == "got --most 9000");
  CHECK(RunOne(*Find(suite, "gpu-gemm")).evidence == "got ");
}

TEST_CASE("a program that cannot be run is skipped, whatever its file promises") {
  const Folder bin;
  AddProgram(bin, "fans", 0644);
  AddSiteFile(bin, "fans", R"({"tier": 1})");
  AddSiteFile(bin, "gone", R"({"tier": 1})");
  const auto quick = Suite(bin, "quick");
  for (const char* name : {"fans", "gone"}) {
    REQUIRE(Find(quick, name) != nullptr);
    const Verdict verdict = RunOne(*Find(quick, name));
    CAPTURE(verdict.evidence);
    CHECK(verdict.outcome == Outcome::kSkipped);
    CHECK(Has(verdict.evidence,
              name == std::string("gone") ? "not installed" : "tide-validator-fans"));
  }
}

TEST_CASE("a file with a mistake keeps its validator from running and says why") {
  const Folder bin;
  AddProgram(bin, "fans");
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"", "must be a JSON object"},
      {"[]", "must be a JSON object"},
      {R"({"tier": 1)", "must be a JSON object"},
      {R"({"tier": 1, "tier": 2})", "given twice"},
      {R"({"tier": 1, "floor": 3})", "unknown key \"floor\""},
      {R"({"tier": 0})", "\"tier\" must be a whole number from 1 to 3"},
      {R"({"tier": 4})", "\"tier\" must"},
      {R"({"tier": 1.5})", "\"tier\" must"},
      {R"({"tier": "1"})", "\"tier\" must"},
      {R"({"tier": 1, "timeout_s": 0})", "\"timeout_s\" must be a whole number from 1 to 3600"},
      {R"({"tier": 1, "timeout_s": 3601})", "\"timeout_s\" must"},
      {R"({"tier": 1, "timeout_s": -5})", "\"timeout_s\" must"},
      {R"({"tier": 1, "timeout_s": 18446744073709551615})", "\"timeout_s\" must"},
      {R"({"tier": 1, "args": "--fast"})", "\"args\" must be a list"},
      {R"({"tier": 1, "args": [1]})", "\"args\" must hold strings"},
      {R"({"tier": 1, "args": ["a\u0000b"]})", "zero bytes"},
      {std::string(100000, '['), "larger than"},
  };
  for (const auto& [json, reason] : mistakes) {
    AddSiteFile(bin, "fans", json);
    for (const char* name : {"quick", "full"}) {
      const auto suite = Suite(bin, name);
      CAPTURE(json, name);
      REQUIRE(Find(suite, "fans") != nullptr);
      const Verdict verdict = RunOne(*Find(suite, "fans"));
      CAPTURE(verdict.evidence);
      CHECK(verdict.outcome == Outcome::kSkipped);
      CHECK(Has(verdict.evidence, "tide-validator-fans.json: "));
      CHECK(Has(verdict.evidence, reason));
    }
    std::vector<SuiteEntry> named;
    AddValidators({"fans"}, bin.path(), named);
    CHECK(RunOne(named.at(0)).outcome == Outcome::kSkipped);
  }
}

TEST_CASE("a file changes a built-in validator where it says so") {
  const Folder bin;
  AddProgram(bin, "storage");
  AddSiteFile(bin, "storage", R"({"args": ["--floor-mbps", "200"]})");
  const auto floor = Suite(bin, "quick");
  CHECK(RunOne(*Find(floor, "storage")).evidence ==
        "got --dir /data --bytes 67108864 --timeout 15 --floor-mbps 200");
  CHECK(Find(floor, "storage")->timeout == Duration::Seconds(19));
  AddSiteFile(bin, "cpu", R"({"args": ["--seconds", "20"], "timeout_s": 30})");
  const auto longer = Suite(bin, "full");
  CHECK(Find(longer, "cpu")->args == std::vector<std::string>{"--seconds", "20"});
  CHECK(Find(longer, "cpu")->timeout == Duration::Seconds(30));
  AddSiteFile(bin, "memory", R"({"tier": 2})");
  CHECK(Find(Suite(bin, "quick"), "memory") == nullptr);
  CHECK(Find(Suite(bin, "full"), "memory") != nullptr);
}

TEST_CASE("a file that would make a sound node fail is a mistake") {
  const Folder bin;
  const auto mistake = [&bin](const std::string& name, const std::string& json) {
    AddSiteFile(bin, name, json);
    return Find(Suite(bin, "quick"), name)->mistake;
  };
  CHECK(Has(mistake("cpu", R"({"args": ["--seconds", "20"]})"), "--seconds needs a timeout_s"));
  CHECK(Has(mistake("memory", R"({"args": ["--floor-gbps"]})"), "pairs of --name and value"));
  CHECK(Has(mistake("links", R"({"args": ["rate-gbps", "400"]})"), "pairs of --name and value"));
  CHECK(Has(mistake("storage", R"({"tier": 3})"), "of storage can only be 1"));
  CHECK(Has(mistake("links", "{"), "tide-validator-links.json: "));
  CHECK(mistake("links", "{}").empty());
}

TEST_CASE("a folder full of other things costs nothing, one full of files has a bound") {
  const Folder bin;
  bin.Write("other.json", "{");
  bin.Write("tide-validator-.json", "{");
  bin.Write("tide-validator-Big.json", "{");
  std::filesystem::create_directory(bin.path() + "/tide-validator-folder.json");
  const auto quick = Suite(bin, "quick");
  REQUIRE(quick.size() == 5);
  CHECK(Has(Find(quick, "folder")->mistake, "no regular file"));
  for (int i = 0; i < 300; ++i) {
    AddSiteFile(bin, "v" + std::to_string(i), R"({"tier": 1})");
  }
  const auto many = Suite(bin, "quick");
  CHECK(many.size() == 4 + kMaxSiteFiles + 1);
  CHECK(Has(many.back().mistake, "more than 256 files"));
}

}  // namespace tide::validators
