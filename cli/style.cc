#include "cli/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>

#include "cli/environment.h"

namespace tide::cli {
namespace {

constexpr size_t kUsualWidth = 80;

std::string_view Escape(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kBold:
      return "\x1b[1m";
    case Tone::kDim:
      return "\x1b[2m";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[31m";
    case Tone::kWarn:
      return "\x1b[33m";
    case Tone::kBusy:
      return "\x1b[36m";
  }
  return "";
}

size_t TerminalWidth(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const std::string columns = Env("COLUMNS");
  size_t width = 0;
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  return width > 0 ? width : kUsualWidth;
}

}  // namespace

bool WantsColor(const ColorRules& rules) {
  if (rules.no_color_flag || !rules.no_color.empty()) {
    return false;
  }
  if (!rules.clicolor_force.empty() && rules.clicolor_force != "0") {
    return true;
  }
  return rules.terminal && rules.clicolor != "0" && rules.term != "dumb";
}

std::string Style::Paint(Tone tone, std::string_view text) const {
  if (!color || tone == Tone::kPlain || text.empty()) {
    return std::string(text);
  }
  return std::string(Escape(tone)) + std::string(text) + "\x1b[0m";
}

std::string Style::Sign(std::string_view sign) const {
  return accessible || sign.empty() ? "" : std::string(sign) + " ";
}

Style DetectStyle(int fd, bool no_color_flag) {
  const std::string accessible = Env("TIDE_ACCESSIBLE");
  Style style;
  style.terminal = ::isatty(fd) == 1;
  style.color = WantsColor({style.terminal,
                            no_color_flag,
                            Env("NO_COLOR"),
                            Env("CLICOLOR"),
                            Env("CLICOLOR_FORCE"),
                            Env("TERM")});
  style.accessible = !accessible.empty() && accessible != "0";
  style.width = style.terminal ? TerminalWidth(fd) : 0;
  return style;
}

}  // namespace tide::cli
