#include "scheduler/server/admission.h"

#include <catch2/catch.hpp>

using namespace tide;

namespace {

// Zones A and B with one leaf of two nodes each; all of group a100.
ClusterSpec TwoZones() {
  ClusterSpec cluster;
  cluster.name = "two";
  cluster.groups = {{"a100", 8, "A100", 64, 0}};
  cluster.zones = {{"A", {{"a-l1", "a100", {"a-n1", "a-n2"}}}},
                   {"B", {{"b-l1", "a100", {"b-n1", "b-n2"}}}}};
  return cluster;
}

NodeIdentity Says(const std::string& name,
                  const std::string& group,
                  const std::string& zone,
                  const std::string& leaf) {
  NodeIdentity identity;
  identity.name = name;
  identity.group = group;
  identity.zone = zone;
  identity.leaf = leaf;
  return identity;
}

std::string PlaceOf(const Result<NodeIdentity>& identity) {
  return identity ? identity->group + " " + identity->zone + " " + identity->leaf
                  : identity.error().message;
}

}  // namespace

TEST_CASE("without a cluster file a node joins as its agent says") {
  const Admission admission;
  CHECK(PlaceOf(admission.Admit(Says("n1", "g", "Z", "l7"))) == "g Z l7");
  CHECK(PlaceOf(admission.Admit(Says("n1", "", "", ""))) == "default A l1");
}

TEST_CASE("a node of the file gets its place from there") {
  const Admission admission(TwoZones(), AdmitPolicy::kListed);
  const auto node = admission.Admit(Says("b-n2", "", "", ""));
  CHECK(PlaceOf(node) == "a100 B b-l1");
  CHECK(node->capacity.gpu_model == "A100");
  CHECK(PlaceOf(admission.Admit(Says("a-n1", "a100", "A", "a-l1"))) == "a100 A a-l1");
}

TEST_CASE("what a node has, its agent says") {
  const Admission admission(TwoZones(), AdmitPolicy::kListed);
  NodeIdentity identity = Says("a-n1", "", "", "");
  identity.capacity = {96, 1, 7, "A100-SXM4-80GB"};
  CHECK(admission.Admit(identity)->capacity == identity.capacity);
}

TEST_CASE("an agent that contradicts the file is refused, with the way out") {
  const Admission admission(TwoZones(), AdmitPolicy::kAny);
  const auto zone = admission.Admit(Says("a-n1", "", "B", ""));
  REQUIRE_FALSE(zone);
  CHECK(zone.error().code == ErrorCode::kConflict);
  CHECK(zone.error().message ==
        "a-n1 says that its zone is B, the cluster file says A; start its agent without --zone, or "
        "correct the file");
  CHECK(PlaceOf(admission.Admit(Says("a-n1", "cpu", "", "")))
            .starts_with("a-n1 says that its group"));
  CHECK(PlaceOf(admission.Admit(Says("a-n1", "", "", "x"))).starts_with("a-n1 says that its leaf"));
}

TEST_CASE("nodes that are not in the file join by policy") {
  const Admission listed(TwoZones(), AdmitPolicy::kListed);
  const auto refused = listed.Admit(Says("c-n1", "", "", ""));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  CHECK(refused.error().message ==
        "c-n1 is not in the file of cluster two; add it there, correct its agent's --name, or let "
        "the scheduler take nodes that are not listed: --admit any");
  const Admission any(TwoZones(), AdmitPolicy::kAny);
  CHECK(PlaceOf(any.Admit(Says("c-n1", "h100", "C", "c-l1"))) == "h100 C c-l1");
  CHECK(PlaceOf(any.Admit(Says("b-n3", "a100", "B", "b-l1"))) == "a100 B b-l1");
  CHECK(PlaceOf(any.Admit(Says("b-n3", "a100", "", "b-l1"))) == "a100 B b-l1");
  CHECK(PlaceOf(any.Admit(Says("b-n3", "a100", "A", "b-l1"))) ==
        "b-n3 says that its leaf b-l1 is in zone A, the cluster file says B; correct its agent's "
        "--zone or --leaf");
}

TEST_CASE("names that could be paths or markup never join") {
  const Admission admission;
  for (const auto* bad : {"", ".", "..", "-n", "a/b", "a b", "<b>", "\"", "n\n", "ä"}) {
    INFO(bad);
    CHECK(admission.Admit(Says(bad, "", "", "")).error().code == ErrorCode::kInvalidArgument);
    if (*bad != '\0') {
      CHECK_FALSE(admission.Admit(Says("n1", bad, "", "")));
      CHECK_FALSE(admission.Admit(Says("n1", "", bad, "")));
      CHECK_FALSE(admission.Admit(Says("n1", "", "", bad)));
    }
  }
}
