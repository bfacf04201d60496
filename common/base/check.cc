#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tide {

void CheckFailed(const char* expression, const char* text, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s (%s)\n", file, line, text, expression);
  std::abort();
}

}  // namespace tide
