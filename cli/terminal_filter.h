#pragma once
// Output of jobs made harmless for the terminal of whoever looks at it: a log may be somebody
// else's. Colours, erasing a line and moving the cursor stay, for progress bars; window titles,
// clipboards, resets, answers of the terminal and text that runs backwards go. Pure.

#include <cstdint>
#include <string>
#include <string_view>

namespace tide::cli {

class TerminalFilter {
 public:
  // on: false for pipes and --raw, where all passes as it is.
  explicit TerminalFilter(bool on) : on_(on) {}
  // Returns what of these bytes a terminal may have. Sequences may be cut anywhere.
  [[nodiscard]] std::string Clean(std::string_view data);

 private:
  enum class State : uint8_t {
    kText,
    kCharacter,     // in one of several bytes that may be a control
    kEscape,        // behind ESC
    kControl,       // in a control sequence, behind ESC [
    kString,        // in one that ends with BEL or ESC backslash
    kStringEscape,  // behind an ESC in that
  };
  void Take(char c, std::string& out);
  void TakeText(char c, std::string& out);
  void TakeCharacter(char c, std::string& out);
  void TakeEscape(char c);
  void TakeControl(char c, std::string& out);
  void TakeString(char c, std::string& out);

  const bool on_;
  State state_ = State::kText;
  std::string held_;  // bytes of a character or control sequence that is not finished
};

}  // namespace tide::cli
