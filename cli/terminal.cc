#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>

namespace tide::cli {
namespace {

// Of the SilentTerminal there is; for its signal handler.
termios shown_settings;
volatile std::sig_atomic_t silent = 0;

void ShowAgain() {
  if (silent != 0) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &shown_settings);
    silent = 0;
  }
}

void OnEnd(int signal) {
  ShowAgain();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

SilentTerminal::SilentTerminal() {
  if (::tcgetattr(STDIN_FILENO, &shown_settings) != 0) {
    return;
  }
  silent = 1;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::signal(signal, OnEnd);
  }
  termios settings = shown_settings;
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings);
}

SilentTerminal::~SilentTerminal() {
  ShowAgain();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::signal(signal, SIG_DFL);
  }
}

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
