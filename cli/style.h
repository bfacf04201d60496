#pragma once
// How output looks on this terminal, or in this pipe. Meaning never rests on colour alone: every
// painted text also says it in words.

#include <string>
#include <string_view>

namespace tide::cli {

enum class Tone {
  kPlain,
  kBold,
  kDim,
  kGood,
  kBad,
  kWarn,
  kBusy
};

// What decides about colour; the fields hold the environment variables of those names.
struct ColorRules {
  bool terminal = false;
  bool no_color_flag = false;
  std::string no_color = {};
  std::string clicolor = {};
  std::string clicolor_force = {};
  std::string term = {};
};
// --no-color beats NO_COLOR beats CLICOLOR_FORCE beats CLICOLOR=0, TERM=dumb and "no terminal".
[[nodiscard]] bool WantsColor(const ColorRules& rules);

struct Style {
  bool terminal = false;
  bool color = false;
  bool accessible = false;  // one "label: value" per line, no signs
  size_t width = 0;         // cells in a line; 0 = no limit

  [[nodiscard]] std::string Paint(Tone tone, std::string_view text) const;
  // "✔ " in front of words, or nothing where signs are unwanted.
  [[nodiscard]] std::string Sign(std::string_view sign) const;
};

// For the file descriptor 1 or 2 of this process.
[[nodiscard]] Style DetectStyle(int fd, bool no_color_flag);

}  // namespace tide::cli
