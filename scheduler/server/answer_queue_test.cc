#include "scheduler/server/answer_queue.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace tide {
namespace {

TEST_CASE("answers are given in their order, all of them before the queue is gone") {
  std::vector<int> given;  // of the queue's thread until it has ended
  std::vector<int> expected;
  auto queue = std::make_unique<AnswerQueue>();
  for (int i = 0; i < 1000; ++i) {
    queue->Add([&given, i] { given.push_back(i); });
    expected.push_back(i);
  }
  queue.reset();
  CHECK(given == expected);
}

TEST_CASE("an answer may bring another one") {
  int given = 0;
  {
    AnswerQueue queue;
    queue.Add([&] {
      ++given;
      queue.Add([&] { ++given; });
    });
  }
  CHECK(given == 2);
}

}  // namespace
}  // namespace tide
