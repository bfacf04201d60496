#include "common/health/loss_news.h"

#include <catch2/catch.hpp>

namespace tide::health {

TEST_CASE("losses of several ranks are the first bad step of any, and spikes of the first") {
  struct {
    const char* what;
    LossNews one;
    LossNews other;
    LossNews both;
  } const rows[] = {
      {"neither knows any", {}, {}, {}},
      {"one is bad", {.loss_step = 9}, {.bad_step = 7, .good_step = 6}, {9, 7, false, 6}},
      {"the other way round", {.bad_step = 7, .good_step = 6}, {.loss_step = 9}, {9, 7, false, 6}},
      {"the first of two", {9, 8, false, 6}, {9, 7, true, 5}, {9, 7, true, 5}},
      {"the earliest good step", {9, 7, true, 6}, {9, 8, false, 4}, {9, 7, true, 4}},
      {"one good step is not known", {9, 7, true, 6}, {9, 8, false, 0}, {9, 7, true, 6}},
      {"a spike of the first", {.loss_step = 9}, {9, 0, false, 0, 5, 2.0, 1.0}, {.loss_step = 9}},
      {"the first knows no losses", {}, {9, 0, false, 0, 5, 2.0, 1.0}, {9, 0, false, 0, 5, 2., 1.}},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    LossNews news = row.one;
    Merge(news, row.other);
    CHECK(news == row.both);
  }
}

}  // namespace tide::health
