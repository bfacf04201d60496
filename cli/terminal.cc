#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace tide::cli {

RawTerminal::RawTerminal() {
  termios settings{};
  if (::tcgetattr(STDIN_FILENO, &settings) != 0) {
    return;
  }
  before_ = settings;
  ::cfmakeraw(&settings);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);
}

void RawTerminal::Restore() {
  if (before_) {
    // Now, not once all was written: a terminal that is gone must not hold us up.
    ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
    before_.reset();
  }
}

std::optional<FrameSize> TerminalSize() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    winsize window{};
    if (::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0) {
      return FrameSize{window.ws_row, window.ws_col};
    }
  }
  return std::nullopt;
}

}  // namespace tide::cli
