#include "api/view/json.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/http/problem.h"

namespace tide::api {
namespace {

using nlohmann::json;

TEST_CASE("a job has the field names of types.proto, and null for what is unknown", "[api][json]") {
  v1::Job job;
  job.set_id(12);
  job.mutable_spec()->set_name("x");
  job.mutable_spec()->add_command("true");
  job.mutable_spec()->set_nodes(2);
  job.mutable_spec()->set_priority(30);
  job.set_user("alice");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_submitted_at(1'700'000'000'123'000'000);
  job.set_step(-1);
  job.set_total_steps(-1);
  job.set_loss(std::numeric_limits<double>::quiet_NaN());
  job.set_run_ms(61'900);
  const json out = json::parse(JobJson(job));
  CHECK(out["id"] == "j-12");
  CHECK(out["state"] == "running");
  CHECK(out["outcome"].is_null());
  CHECK(out["exit_code"].is_null());
  CHECK(out["submitted_at"] == "2023-11-14T22:13:20.123Z");
  CHECK(out["finished_at"].is_null());
  CHECK(out["step"].is_null());
  CHECK(out["total_steps"].is_null());
  CHECK(out["loss"].is_null());
  CHECK(out["run_s"] == 61);
  CHECK(out["checkpoint"].is_null());
  CHECK(out["spec"]["name"] == "x");
  CHECK(out["attempts"] == json::array());
}

TEST_CASE("an attempt shows what crosses zones, or null", "[api][json]") {
  v1::Job job;
  job.add_attempts();
  v1::CrossZonePairs& pairs = *job.add_attempts()->mutable_cross_zone_pairs();
  pairs.set_plan(1);
  pairs.set_ring(2);
  pairs.set_nccl_tree(5);
  const json attempts = json::parse(JobJson(job))["attempts"];
  CHECK(attempts[0]["cross_zone_pairs"].is_null());
  CHECK(attempts[1]["cross_zone_pairs"] == json{{"plan", 1}, {"ring", 2}, {"nccl_tree", 5}});
}

TEST_CASE("an attempt shows what was seen in its training", "[api][json]") {
  v1::Job job;
  job.add_attempts();
  v1::JobNote& note = *job.add_attempts()->add_notes();
  note.set_kind("loss_not_finite");
  note.set_step(38);
  note.set_at(1'700'000'000'123'000'000);
  note.set_text("loss is NaN since step 38");
  const json attempts = json::parse(JobJson(job))["attempts"];
  CHECK(attempts[0]["notes"] == json::array());
  CHECK(attempts[1]["notes"] == json::array({{{"kind", "loss_not_finite"},
                                              {"step", 38},
                                              {"at", "2023-11-14T22:13:20.123Z"},
                                              {"text", "loss is NaN since step 38"}}}));
}

TEST_CASE("an attempt shows its handover and exits", "[api][json]") {
  v1::Job job;
  job.set_id(1);
  job.set_state(v1::JOB_STATE_FINISHED);
  job.set_outcome(v1::OUTCOME_FAILED);
  job.set_exit_code(3);
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_epoch(1);
  attempt.set_stop_step(120);
  attempt.set_saved_at(1'000'000'000);
  v1::Task& task = *attempt.add_tasks();
  task.set_node("n1");
  task.set_state(v1::TASK_STATE_EXITED);
  task.mutable_exit()->set_reason(v1::EXIT_REASON_START_FAILED);
  task.mutable_exit()->set_code(-1);
  task.mutable_exit()->set_signal(9);
  task.mutable_exit()->set_rank(-1);
  const json out = json::parse(JobJson(job));
  CHECK(out["outcome"] == "failed");
  CHECK(out["exit_code"] == 3);
  const json& first = out["attempts"][0];
  CHECK(first["stop_step"] == 120);
  CHECK(first["saved_at"] == "1970-01-01T00:00:01.000Z");
  CHECK(first["tasks"][0]["state"] == "exited");
  CHECK(first["tasks"][0]["exit"]["reason"] == "start_failed");
  CHECK(first["tasks"][0]["exit"]["code"].is_null());
  CHECK(first["tasks"][0]["exit"]["signal"] == 9);
}

TEST_CASE("nodes and faults name their job as people do", "[api][json]") {
  v1::Node node;
  node.set_name("n1");
  node.set_state(v1::NODE_STATE_QUARANTINED);
  CHECK(json::parse(NodeJson(node))["job"].is_null());
  CHECK(json::parse(NodeJson(node))["task"].is_null());
  node.set_job(3);
  CHECK(json::parse(NodeJson(node))["job"] == "j-3");
  CHECK(json::parse(NodeJson(node))["task"] == 0);
  CHECK(json::parse(NodeJson(node))["state"] == "quarantined");
  v1::Incident incident;
  incident.set_id(7);
  incident.set_kind(v1::FAULT_KIND_LINK_DOWN);
  const json fault = json::parse(IncidentJson(incident));
  CHECK(fault["id"] == 7);
  CHECK(fault["kind"] == "link_down");
  CHECK(fault["code"].is_null());
  CHECK(fault["cleared_at"].is_null());
}

TEST_CASE("bytes that are not UTF-8 do not break the JSON", "[api][json]") {
  v1::Node node;
  node.set_reason("bad \xff byte");
  CHECK_NOTHROW(json::parse(NodeJson(node)));
  CHECK_NOTHROW(json::parse(Quoted("\xc3\x28\n\"")));
}

TEST_CASE("every error code becomes a problem with its status and name", "[api][problem]") {
  const Problem conflict = ToProblem({ErrorCode::kConflict, "j-1 has finished"});
  CHECK(conflict.status == 409);
  const json out = json::parse(ProblemJson(conflict, "r1"));
  CHECK(out["code"] == "conflict");
  CHECK(out["type"] == "urn:tide:problem:conflict");
  CHECK(out["detail"] == "j-1 has finished");
  CHECK(out["request_id"] == "r1");
  CHECK(out["retryable"] == false);
  CHECK(ToProblem({ErrorCode::kUnavailable, ""}).retryable);
}

TEST_CASE("findings of a spec keep their place", "[api][problem]") {
  const auto refused =
      RefuseSpec({{"/resources/node", 4, 3, "unknown key `node`", "did you mean `nodes`?"},
                  {"/command", 0, 0, "missing", ""}});
  const json out = json::parse(ProblemJson(refused.error(), "r"));
  CHECK(out["status"] == 422);
  CHECK(out["errors"][0]["line"] == 4);
  CHECK(out["errors"][0]["suggestion"] == "did you mean `nodes`?");
  CHECK(out["errors"][1]["line"].is_null());
  CHECK(out["errors"][1]["suggestion"].is_null());
}

}  // namespace
}  // namespace tide::api
