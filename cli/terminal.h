#pragma once
// The person's own terminal, while a program elsewhere uses it.

#include <termios.h>

#include <optional>

#include "common/exec/frame.h"

namespace tide::cli {

// Passes every key on as a byte; the terminal is as it was when this ends. Does nothing where
// standard input is no terminal.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal() { Restore(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  void Restore();

 private:
  std::optional<termios> before_;
};

// What is typed is not shown; an interrupt meanwhile ends the program with the terminal as it was.
class SilentTerminal {
 public:
  SilentTerminal();
  ~SilentTerminal();
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;
};

// Of the first of stdin, stdout and stderr that is a terminal; nothing where none is.
[[nodiscard]] std::optional<FrameSize> TerminalSize();

}  // namespace tide::cli
