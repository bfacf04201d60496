#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tide {
namespace {

void (*on_check_failed)() = nullptr;

}  // namespace

void OnCheckFailed(void (*action)()) {
  on_check_failed = action;
}

void CheckFailed(const char* expression, const char* text, const char* file, int line) {
  if (on_check_failed != nullptr) {
    on_check_failed();
  }
  std::fprintf(stderr, "%s:%d: invariant broken: %s (%s)\n", file, line, text, expression);
  std::abort();
}

}  // namespace tide
