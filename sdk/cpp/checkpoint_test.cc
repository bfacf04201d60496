#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "sdk/cpp/api.h"
#include "sdk/cpp/testing_page.h"
#include "sdk/native/folder.h"
#include "sdk/native/testing_folder.h"

namespace tide::cpp {
namespace {

using Catch::Contains;

std::vector<int64_t> CommittedIn(const std::string& folder) {
  const std::vector<sdk::CheckpointFolder> found = OrThrow(sdk::ScanFolder(folder));
  std::vector<int64_t> steps;
  for (const sdk::CheckpointFolder& item : found) {
    if (item.has_manifest) {
      steps.push_back(item.id.step);
    }
  }
  return steps;
}

// One rank's program: a page, a run, some state. native: the folder of tide-saver, "0": none.
struct Program {
  explicit Program(const std::string& folder,
                   const std::string& native = TIDE_NATIVE_BIN,
                   int64_t rank = 0,
                   int64_t world = 1,
                   const Run::Variables& more = {})
      : agent(MakeTestingPage(folder + "/page-" + std::to_string(rank))),
        run(Environment(folder, native, rank, world, more)) {}

  static Run::Variables Environment(const std::string& folder,
                                    const std::string& native,
                                    int64_t rank,
                                    int64_t world,
                                    Run::Variables more) {
    more.insert({{"RANK", std::to_string(rank)},
                 {"WORLD_SIZE", std::to_string(world)},
                 {"TIDE_ATTEMPT", "1"},
                 {"TIDE_START", "1"},
                 {"TIDE_PAGE", folder + "/page-" + std::to_string(rank)},
                 {"TIDE_CHECKPOINT_DIR", folder + "/ck"},
                 {"TIDE_NATIVE", native}});
    return more;
  }

  Page& page() const { return agent.page(); }

  Checkpoint& Make(const CheckpointOptions& options = {}) {
    ck = std::make_unique<Checkpoint>(run, options);
    ck->replicated("model.w", Tensor::Of(weights.data(), {2, 3}));
    ck->replicated("model.b", Tensor::Of(bias.data(), {2}));
    ck->local("rng.state", Tensor::Of(own.data(), {2}));
    ck->global("loop.epoch", &epoch);
    ck->global("loop.rate", &rate);
    ck->global("loop.name", &name);
    ck->global("loop.warm", &warm);
    return *ck;
  }

  // Ticks 1 to `last`; the steps at which it was told to leave.
  std::vector<int64_t> TickTo(int64_t last, int64_t first = 1) {
    std::vector<int64_t> left;
    for (int64_t step = first; step <= last; ++step) {
      if (ck->tick(step, 0.5)) {
        left.push_back(step);
      }
    }
    return left;
  }

  MappedPage agent;
  Run run;
  std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  std::vector<double> bias = {7, 8};
  std::vector<uint64_t> own = {9, 10};
  int64_t epoch = 3;
  double rate = 0.1;
  std::string name = "run";
  bool warm = true;
  std::unique_ptr<Checkpoint> ck;
};

void Forget(Program& program) {
  program.weights.assign(6, 0);
  program.bias.assign(2, 0);
  program.own.assign(2, 0);
  program.epoch = 0;
  program.rate = 0;
  program.name.clear();
  program.warm = false;
}

TEST_CASE("all state comes back, with a saver and without") {
  for (const std::string native : {TIDE_NATIVE_BIN, "0"}) {
    const sdk::TestingFolder folder;
    Program program(folder.path, native);
    CHECK(program.Make().resume() == 0);
    CHECK(program.ck->save(12) == "s000000000012-0001-d998b860");
    CHECK(program.ck->saves() == 1);
    CHECK((program.page().saved_step == 12 && program.page().staged_step == 12));
    CHECK(program.page().phase == kPhaseTraining);
    Forget(program);
    CHECK(program.Make().resume() == 12);
    CHECK(program.weights == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(program.bias == std::vector<double>{7, 8});
    CHECK(program.own == std::vector<uint64_t>{9, 10});
    CHECK((program.epoch == 3 && program.rate == 0.1));
    CHECK((program.name == "run" && program.warm));
  }
}

TEST_CASE("a step is saved again as it is now") {
  for (const std::string native : {TIDE_NATIVE_BIN, "0"}) {
    const sdk::TestingFolder folder;
    Program program(folder.path, native);
    CHECK(program.Make({.every = 2}).resume() == 0);
    CHECK(program.TickTo(2).empty());
    program.epoch = 4;
    CHECK(program.ck->save(2) == "s000000000002-0001-d998b860-2");
    Forget(program);
    CHECK(program.Make().resume() == 2);
    CHECK(program.epoch == 4);
    // So does a start of the same name, of which the ranks alone were started again.
    CHECK(program.ck->save(2) == "s000000000002-0001-d998b860-3");
  }
}

TEST_CASE("each start saves under a name of its own") {
  const sdk::TestingFolder folder;
  std::vector<float> weights = {1, 2};
  const Run::Variables alone = {{"TIDE_CHECKPOINT_DIR", folder.path}, {"TIDE_NATIVE", "0"}};
  for (const int64_t known : {0, 5, 2}) {
    Run run(alone);
    Checkpoint ck(run);
    ck.replicated("w", Tensor::Of(weights.data(), {2}));
    CHECK(ck.resume() == known);
    // Whoever goes back goes on from there, whatever lies ahead.
    CHECK(ck.save(known == 0 ? 5 : 2)
              .starts_with(known == 0   ? "s000000000005-0001-"
                           : known == 5 ? "s000000000002-0002-"
                                        : "s000000000002-0003-"));
  }
  CHECK(sdk::ScanFolder(folder.path)->size() == 3);
}

TEST_CASE("periodic and ordered saves, and what stays of them") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  CHECK(program.Make({.every = 10, .keep = 2}).resume() == 0);
  Commit(program.page(), kOrderSave, 4);
  CHECK(program.TickTo(9).empty());
  CHECK(program.page().ack_seq == 1);
  CHECK(program.ck->flush());
  CHECK(program.TickTo(12, 10).empty());
  CHECK(program.ck->flush());
  CHECK(CommittedIn(folder.path + "/ck") == std::vector<int64_t>{4, 10});
  CHECK(program.TickTo(25, 13).empty());
  CHECK(program.ck->flush());
  CHECK(CommittedIn(folder.path + "/ck") == std::vector<int64_t>{10, 20});
  CHECK(program.ck->saves() == 3);
  CHECK(program.page().saved_step == 20);
  CHECK(program.page().loss == 0.5);
}

TEST_CASE("a step that is not safe puts saves and suspensions off") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  Checkpoint& ck = program.Make({.every = 2});
  CHECK_FALSE(ck.tick(1));
  CHECK_FALSE(ck.tick(2, 0, false));
  CHECK_FALSE(ck.tick(3));
  CHECK(ck.flush());
  CHECK(CommittedIn(folder.path + "/ck") == std::vector<int64_t>{3});
  Commit(program.page(), kOrderSuspend, 3);
  CHECK_FALSE(ck.tick(4, 0, false));
  CHECK(ck.tick(5));
}

TEST_CASE("ticks that are not safe order nothing twice") {
  const sdk::TestingFolder folder;
  Program program(folder.path, "0");
  Checkpoint& ck = program.Make({.every = 10});
  CHECK(ck.resume() == 0);
  for (const auto& [step, safe] : std::vector<std::pair<int64_t, bool>>{
           {9, true}, {10, true}, {10, false}, {11, true}, {20, false}, {20, false}, {21, true}}) {
    CHECK_FALSE(ck.tick(step, 0.5, safe));
  }
  CHECK(CommittedIn(folder.path + "/ck") == std::vector<int64_t>{10, 21});
}

TEST_CASE("a suspension saves and is acknowledged") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  CHECK(program.Make({.every = 10}).resume() == 0);
  Commit(program.page(), kOrderSuspend, 10);
  CHECK(program.TickTo(10) == std::vector<int64_t>{10});
  CHECK(CommittedIn(folder.path + "/ck") == std::vector<int64_t>{10});
  CHECK((program.page().ack_seq == 1 && program.page().saved_step == 10));
  CHECK(program.page().phase == kPhaseSaved);
}

TEST_CASE("a stop saves nothing") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  CHECK(program.Make({.every = 10}).resume() == 0);
  Commit(program.page(), kOrderStop, 0);
  CHECK(program.Make({.every = 10}).tick(10));
  CHECK(CommittedIn(folder.path + "/ck").empty());
}

TEST_CASE("a suspension that cannot be saved is not acknowledged") {
  for (const std::string native : {TIDE_NATIVE_BIN, "0"}) {
    const sdk::TestingFolder folder;
    Program program(folder.path, native);
    program.Make();
    std::ofstream(folder.path + "/ck") << "in the way";
    Commit(program.page(), kOrderSuspend, 3);
    CHECK(program.TickTo(6).empty());
    CHECK((program.page().ack_seq == 0 && program.page().phase == kPhaseTraining));
    CHECK(program.ck->failed_saves() == 1);
    CHECK(program.page().failed_saves == 1);
    CHECK_THROWS_WITH(program.ck->save(7), Contains("cannot save step 7"));
    CHECK_THROWS_AS(program.ck->save(8), Error);
  }
}

TEST_CASE("a suspension that others left with ends this rank, too") {
  const sdk::TestingFolder folder;
  Program first(folder.path, "0", 0, 2);
  CHECK(first.Make().resume() == 0);
  Program program(folder.path, "0", 1, 2);
  Checkpoint& ck = program.Make({.timeout = std::chrono::milliseconds(1)});
  CHECK(ck.resume() == 0);
  Commit(program.page(), kOrderSuspend, 2);
  CHECK(program.TickTo(3).empty());  // rank 0 does not come
  CHECK(ck.failed_saves() == 1);
  std::ofstream(folder.path + "/ck/s000000000002-0001-d998b860/MANIFEST.json")
      << sdk::Seal(R"({"format":"tide-checkpoint/1")");
  CHECK(ck.tick(4));
  CHECK((program.page().ack_seq == 1 && program.page().saved_step == 2));
}

TEST_CASE("two ranks write one checkpoint, any number reads it") {
  const sdk::TestingFolder folder;
  {
    Program first(folder.path, TIDE_NATIVE_BIN, 0, 2);
    Program second(folder.path, "0", 1, 2);
    second.own = {11, 12};
    first.Make();
    second.Make();
    std::thread other([&] { CHECK(second.ck->save(5) == "s000000000005-0001-d998b860"); });
    first.ck->save(5);
    other.join();
  }
  for (const int64_t rank : {0, 1, 2}) {
    Program program(folder.path, "0", rank, 3, {{"TIDE_START", "2"}});
    Forget(program);
    CHECK(program.Make().resume() == 5);
    CHECK(program.weights == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(program.bias == std::vector<double>{7, 8});
    const std::vector<std::vector<uint64_t>> own = {{9, 10}, {11, 12}, {0, 0}};
    CHECK(program.own == own.at(static_cast<size_t>(rank)));
  }
}

TEST_CASE("ranks that disagree commit nothing") {
  const sdk::TestingFolder folder;
  Program first(folder.path, TIDE_NATIVE_BIN, 0, 2);
  Program second(folder.path, TIDE_NATIVE_BIN, 1, 2);
  float more = 0;
  first.Make();
  second.Make().replicated("model.x", Tensor::Of(&more, {1}));
  std::thread other([&] { CHECK_THROWS_AS(second.ck->save(5), Error); });
  CHECK_THROWS_WITH(first.ck->save(5), Contains("have different replicated state"));
  other.join();
}

TEST_CASE("a damaged checkpoint is passed over, and nothing of it is kept") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  program.Make().save(1);
  program.epoch = 4;
  program.ck->save(2);
  const std::string data = folder.path + "/ck/s000000000002-0001-d998b860/d00000.safetensors";
  std::filesystem::resize_file(data, std::filesystem::file_size(data) - 1);
  Forget(program);
  CHECK(program.Make().resume() == 1);
  CHECK(program.epoch == 3);
  std::filesystem::remove(folder.path + "/ck/s000000000001-0001-d998b860/d00000.safetensors");
  Forget(program);
  CHECK_THROWS_WITH(program.Make().resume(), Contains("is whole, 2 damaged"));
  CHECK(program.Make().resume(true) == 0);
  CHECK(program.weights == std::vector<float>(6));
  CHECK(program.ck->save(2) == "s000000000002-0001-d998b860-2");
}

TEST_CASE("what the job has saved must be there") {
  const sdk::TestingFolder folder;
  Program first(folder.path);
  first.Make().save(3);
  Program next(folder.path, TIDE_NATIVE_BIN, 0, 1, {{"TIDE_CHECKPOINT_STEP", "7"}});
  CHECK_THROWS_WITH(next.Make().resume(),
                    Contains("has saved step 7, but step 3 is the newest in"));
  CHECK(next.Make().resume(true) == 3);
  std::filesystem::remove_all(folder.path + "/ck");
  CHECK_THROWS_WITH(next.Make().resume(), Contains("has saved step 7, but there is none in"));
  CHECK(next.Make().resume(true) == 0);
}

TEST_CASE("the first loss that is no number is noted, with the last good one before it") {
  struct {
    std::vector<double> losses;  // from step 1
    int64_t bad_step;
    uint32_t kind;
    int64_t good_step;
    int64_t loss_step;
  } const rows[] = {
      {{0.5, 0.4, kNoLoss, 0.3}, 0, 0, 0, 4},
      {{0.5, 0.4, kNoLoss, std::nan(""), std::nan("")}, 4, kBadNan, 2, 2},
      {{INFINITY, 0.4, std::nan("")}, 1, kBadInfinite, 0, 2},
      {{0.5, -INFINITY, 0.25}, 2, kBadInfinite, 1, 3},
      {{0.5, std::bit_cast<double>(0xFFF8'0000'0000'0000)}, 2, kBadNan, 1, 1},  // 0.0 / 0.0 here
  };
  for (const auto& row : rows) {
    const sdk::TestingFolder folder;
    Program program(folder.path);
    Checkpoint& ck = program.Make();
    int64_t step = 0;
    for (const double loss : row.losses) {
      CHECK_FALSE(ck.tick(++step, loss));
    }
    CHECK(program.page().bad_step == row.bad_step);
    CHECK(program.page().good_step == row.good_step);
    CHECK(program.page().loss_step == row.loss_step);
    CHECK((row.bad_step == 0 || program.page().bad_kind == row.kind));
  }
}

namespace {

// Leaves checkpoints of steps 10, 20 and 30.
void SaveThreeSteps(const sdk::TestingFolder& folder) {
  Program first(folder.path);
  first.Make({.keep = 9});
  for (const int64_t step : {10, 20, 30}) {
    first.epoch = step;
    first.ck->save(step);
  }
}

}  // namespace

TEST_CASE("a program goes back below the step at which its loss was no number") {
  const sdk::TestingFolder folder;
  SaveThreeSteps(folder);
  const auto below = [&](const char* step) {
    return Run::Variables{
        {"TIDE_START", "2"}, {"TIDE_CHECKPOINT_STEP", "30"}, {"TIDE_RESUME_BEFORE", step}};
  };
  CHECK(Program(folder.path, "0", 0, 1, below("31")).Make().resume() == 30);
  CHECK(Program(folder.path, "0", 0, 1, below("30")).Make().resume() == 20);
  CHECK(Program(folder.path, "0", 0, 1, below("11")).Make().resume() == 10);
  Program none(folder.path, "0", 0, 1, below("10"));
  CHECK_THROWS_WITH(none.Make().resume(), Contains("below step 10 in") && Contains("10, 20, 30"));
  CHECK(none.Make().resume(false, 30) == 30);  // its own word goes before
}

TEST_CASE("a program goes back, by its own word or the platform's") {
  const sdk::TestingFolder folder;
  SaveThreeSteps(folder);
  Program back(folder.path, "0", 0, 1, {{"TIDE_START", "2"}, {"TIDE_RESUME_STEP", "20"}});
  CHECK(back.Make({.keep = 9}).resume() == 20);
  CHECK(back.epoch == 20);
  CHECK_THROWS_WITH(back.Make().resume(false, 15),
                    Contains("of step 15 in") && Contains("10, 20, 30"));
  CHECK(back.Make().resume(false, 0) == 0);
  CHECK(back.Make({.keep = 9}).resume(false, 10) == 10);
  back.epoch = 11;
  back.ck->save(11);
  Program next(folder.path, "0", 0, 1, {{"TIDE_START", "3"}, {"TIDE_CHECKPOINT_STEP", "11"}});
  CHECK(next.Make().resume() == 11);
}

TEST_CASE("a second checkpoint, elsewhere, is not on the job's record") {
  const sdk::TestingFolder folder;
  Program program(folder.path, "0", 0, 1, {{"TIDE_CHECKPOINT_STEP", "3"}});
  program.Make().save(3);
  Checkpoint best(program.run, {.dir = folder.path + "/best"});
  best.global("epoch", &program.epoch);
  CHECK(best.resume() == 0);
  best.save(9);
  CHECK(program.page().saved_step == 3);
  CHECK(program.Make().resume() == 3);
  CHECK(program.page().saved_step == 3);
}

TEST_CASE("an older damaged checkpoint does not excuse that the newest is gone") {
  const sdk::TestingFolder folder;
  Program program(folder.path, "0", 0, 1, {{"TIDE_CHECKPOINT_STEP", "3"}});
  program.Make().save(1);
  program.ck->save(2);
  std::filesystem::remove(folder.path + "/ck/s000000000002-0001-d998b860/d00000.safetensors");
  CHECK_THROWS_WITH(program.Make().resume(), Contains("step 1 is the newest in"));
}

TEST_CASE("state that does not fit is refused before anything changes") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  program.Make().save(1);
  Forget(program);
  float other = 0;

  program.Make().replicated("model.c", Tensor::Of(&other, {1}));
  CHECK_THROWS_WITH(program.ck->resume(), Contains("model.c is not in it"));
  program.Make().replicated("head.w", Tensor::Of(&other, {1}));
  CHECK_THROWS_WITH(program.ck->resume(), Contains("it holds no object \"head\" (it holds model)"));
  Checkpoint fewer(program.run);
  fewer.replicated("model.w", Tensor::Of(program.weights.data(), {2, 3}));
  CHECK_THROWS_WITH(fewer.resume(), Contains("model.b, which the program has not"));
  Checkpoint turned(program.run);
  turned.replicated("model.w", Tensor::Of(program.weights.data(), {3, 2}));
  turned.replicated("model.b", Tensor::Of(program.bias.data(), {2}));
  CHECK_THROWS_WITH(turned.resume(),
                    Contains("the checkpoint holds F32[2,3], the program has F32[3,2]"));
  Checkpoint typed(program.run);
  typed.global("loop.name", &program.epoch);
  CHECK_THROWS_WITH(typed.resume(), Contains("loop.name is stored as \"run\""));
  CHECK(program.weights == std::vector<float>(6));

  Checkpoint part(program.run);  // whole objects may be left out
  part.global("loop.epoch", &program.epoch);
  CHECK(part.resume() == 1);
  CHECK(program.epoch == 3);
}

TEST_CASE("names are checked when they are given") {
  const sdk::TestingFolder folder;
  Program program(folder.path);
  Checkpoint& ck = program.Make();
  CHECK_THROWS_WITH(ck.replicated("model.w", Tensor::Of(program.weights.data(), {6})),
                    Contains("use another name"));
  CHECK_THROWS_AS(ck.global("$x", &program.epoch), Error);
  program.name = "\xFF";
  CHECK_THROWS_WITH(ck.save(1), Contains("loop.name is no UTF-8"));
  CHECK(CommittedIn(folder.path).empty());
}

}  // namespace
}  // namespace tide::cpp
