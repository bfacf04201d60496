#include "bench/daemons/bench_store.h"

#include <stdlib.h>
#include <sys/statfs.h>

#include <cstdio>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/store/open_database.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/private_postgres.h"

namespace tide::bench {
namespace {

constexpr long kTmpfsMagic = 0x01021994;

testing::PrivatePostgres& Server() {
  static testing::PrivatePostgres server({.durable = true, .settings = {}});
  return server;
}

void SayLeftOut() {
  [[maybe_unused]] static const bool kSaid = [] {
    std::fprintf(stderr,
                 "PostgreSQL is not installed, its cases are skipped: scripts/setup installs it\n");
    return true;
  }();
}

}  // namespace

BenchFolder::BenchFolder() {
  const auto parent = std::filesystem::temp_directory_path();
  struct statfs info{};
  TIDE_CHECK(::statfs(parent.c_str(), &info) == 0 && info.f_type != kTmpfsMagic,
             "the folder for temporary files is on a disk; set TMPDIR to one");
  std::string pattern = parent / "tide-bench-XXXXXX";
  TIDE_CHECK(::mkdtemp(pattern.data()) != nullptr, "a benchmark has a temporary folder");
  path_ = pattern;
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool IsInstalled(StoreKind kind) {
  return kind == StoreKind::kSqlite || testing::PrivatePostgres::IsInstalled();
}

void OnEachStore(Run& run, void (*measure)(Run&, StoreKind)) {
  for (const StoreKind kind : run.stores()) {
    if (IsInstalled(kind)) {
      measure(run, kind);
    } else {
      SayLeftOut();
    }
  }
}

BenchStore::BenchStore(StoreKind kind)
    : address_(kind == StoreKind::kSqlite ? "sqlite:" + folder_.File("tide.db")
                                          : Server().Address(Server().NewDatabase())) {
  const Instant now = SystemNow();
  auto database = OpenDatabaseToMake(address_);
  TIDE_CHECK(database.has_value(), "the database can be made");
  const auto store = Store::Open(std::move(*database), "tide-bench", now);
  TIDE_CHECK(store.has_value() && (*store)->Release(now).has_value(), "the store can be made");
}

void BenchStore::Fill(const ClusterState& state, Instant now) const {
  auto database = OpenDatabase(address_);
  TIDE_CHECK(database.has_value(), "the database was made");
  auto store = Store::Open(std::move(*database), "tide-bench", now);
  TIDE_CHECK(store.has_value(), "nobody leads on the store");
  // By parts: a store gives one commit a few seconds.
  constexpr size_t kPart = 5000;
  StepResult part;
  const auto commit = [&] {
    TIDE_CHECK((*store)->Commit(state, part, now).has_value(), "it is written");
    part = StepResult();
  };
  for (const Node& node : state.nodes) {
    part.changed.nodes.insert(node.id);
    if (part.changed.nodes.size() == kPart) {
      commit();
    }
  }
  for (const auto& [id, job] : state.jobs) {
    part.changed.jobs.insert(id);
    if (part.changed.jobs.size() == kPart) {
      commit();
    }
  }
  commit();
  TIDE_CHECK((*store)->Release(now).has_value(), "the lease is given up");
}

}  // namespace tide::bench
