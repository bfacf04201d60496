// The order of owners in a tree of projects: scheduling.md section 2.

#include "scheduler/core/policy/order.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

const Instant kNow = Instant::FromUnixNanos(1'800'000'000'000'000'000);

// Jobs of owners that have used so much; "project/user" by the order in which they are handed out.
struct Order {
  ClusterState state;
  Policy policy;
  std::vector<Job> jobs;
  int64_t charge = 0;  // for each job that is handed out

  void Use(const std::string& project, const std::string& user, int64_t use) {
    state.accounts[NumberOf(project, user)] = {use, 0, kNow};
  }
  void Submit(const std::string& project, const std::string& user) {
    Job& job = jobs.emplace_back();
    job.id = JobId(jobs.size());
    job.spec = AJob().Project(project).Spec();
    job.user = user;
    NumberOf(project, user);
  }
  uint32_t NumberOf(const std::string& project, const std::string& user) {
    const uint32_t owner = state.owners.Add(project, user);
    state.accounts.resize(state.owners.size());
    return owner;
  }
  [[nodiscard]] std::string Run() {
    WaitingJobs waiting;
    for (const Job& job : jobs) {
      waiting.Put(job, NumberOf(job.spec->project, job.user));
    }
    std::vector<OwnerJobs> owners;
    const Shares shares(state, policy, kNow);
    for (const auto& [key, queue] : waiting.queues()) {
      owners.push_back({.owner = key.owner,
                        .alike = queue.alike.empty() ? nullptr : &queue.alike,
                        .varied = queue.varied.empty() ? nullptr : &queue.varied,
                        .singles = queue.singles.empty() ? nullptr : &queue.singles,
                        .use = shares.UseOf(key.owner)});
    }
    WaitingOrder order(owners, shares);
    std::string handed_out;
    while (order.Next() != nullptr) {
      const uint32_t owner = owners[order.owner()].owner;
      handed_out += (handed_out.empty() ? "" : " ") + state.owners.Project(owner) + "/" +
                    state.owners.User(owner);
      order.Charge(charge);
    }
    return handed_out;
  }
};

}  // namespace

TEST_CASE("users that used as much: whose first job came first") {
  Order order;
  order.Submit("a", "zed");
  order.Submit("a", "ada");
  order.Submit("a", "bob");
  order.Submit("a", "zed");
  CHECK(order.Run() == "a/zed a/zed a/ada a/bob");
  order.Use("a", "zed", 1);
  CHECK(order.Run() == "a/ada a/bob a/zed a/zed");
}

TEST_CASE("flat projects: who used least over its weight goes first, ties by name") {
  Order order;
  order.Use("a", "ada", 100);
  order.Use("b", "bob", 150);
  order.Submit("a", "ada");
  order.Submit("b", "bob");
  order.Submit("c", "eve");
  CHECK(order.Run() == "c/eve a/ada b/bob");
  order.policy.projects["b"] = {"", 2};
  CHECK(order.Run() == "c/eve b/bob a/ada");
  order.Use("b", "bob", 200);
  CHECK(order.Run() == "c/eve a/ada b/bob");
}

TEST_CASE("level by level: a subtree's use counts before a project's own") {
  Order order;
  order.policy.projects = {{"x", {}}, {"x1", {"x"}}, {"x2", {"x"}}, {"y", {}}, {"y1", {"y"}}};
  order.Use("x2", "bob", 500);  // makes x dear, not x1 within it
  order.Use("y1", "eve", 300);
  order.Submit("x1", "ada");
  order.Submit("x2", "bob");
  order.Submit("y1", "eve");
  CHECK(order.Run() == "y1/eve x1/ada x2/bob");
  order.policy.projects["x"].weight = 2;
  CHECK(order.Run() == "x1/ada x2/bob y1/eve");
  order.Use("z", "old", 1);  // others do not matter
  CHECK(order.Run() == "x1/ada x2/bob y1/eve");
}

TEST_CASE("what a project with sub-projects runs itself stands beside them") {
  Order order;
  order.policy.projects = {{"x", {}}, {"x1", {"x", 2}}};
  order.Use("x", "ada", 100);
  order.Use("x1", "bob", 150);
  order.Submit("x", "ada");
  order.Submit("x1", "bob");
  CHECK(order.Run() == "x1/bob x/ada");
  order.Use("x1", "bob", 250);
  CHECK(order.Run() == "x/ada x1/bob");
}

TEST_CASE("what is handed out counts at once, on every level and over its weight") {
  Order order;
  order.policy.projects = {{"x", {"", 2}}, {"x1", {"x"}}, {"x2", {"x"}}, {"y", {}}};
  order.charge = 10;
  for (int i = 0; i < 3; ++i) {
    order.Submit("x1", "ada");
    order.Submit("x2", "bob");
    order.Submit("y", "eve");
  }
  CHECK(order.Run() == "x1/ada y/eve x2/bob x1/ada y/eve x2/bob x1/ada y/eve x2/bob");
}

TEST_CASE("owners in different parts of the tree are compared over all weights above them") {
  Order order;
  order.policy.projects = {{"x", {"", 2}}, {"x1", {"x", 5}}};
  order.Use("x1", "ada", 1000);
  order.Use("y", "bob", 100);
  order.Submit("x1", "ada");
  order.Submit("y", "bob");
  const Shares shares(order.state, order.policy, kNow);
  CHECK(shares.UseOf(order.jobs[0]) == 100);
  CHECK(shares.UseOf(order.jobs[1]) == 100);
  CHECK(shares.UseOfTree("x") == 1000);
  CHECK(shares.OwnUseOf("x") == 0);
}

}  // namespace tide::testing
