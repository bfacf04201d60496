#pragma once
// TIDE_CHECK stays on in release builds: a broken invariant ends the process before it can be
// written to disk. The text names the invariant.

namespace tide {

// Called before the text is printed, by a program whose stderr goes nowhere until it is needed.
void OnCheckFailed(void (*action)());

[[noreturn]] void CheckFailed(const char* expression, const char* text, const char* file, int line);

}  // namespace tide

#define TIDE_CHECK(condition, text)                              \
  do {                                                           \
    if (!(condition)) {                                          \
      ::tide::CheckFailed(#condition, text, __FILE__, __LINE__); \
    }                                                            \
  } while (false)
