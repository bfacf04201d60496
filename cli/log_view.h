#pragma once
// How output of ranks looks on the screen, and how far it has come: what to ask for after a broken
// connection so that nothing is missing and nothing comes twice. Pure.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tide::cli {

struct LogLook {
  bool fold = false;  // what a carriage return overwrites is not shown: for terminals
  bool color = false;
  bool timestamps = false;  // shown; else they are taken away, where `stamped`
  // What the server was asked for.
  bool prefixed = false;  // each line begins with "[rank] "
  bool stamped = false;   // and then with a time
};

// Bytes of one rank, which come as it wrote them: unfinished lines, too.
class ByteView {
 public:
  explicit ByteView(bool fold) : fold_(fold) {}
  // What to print for these.
  [[nodiscard]] std::string Show(std::string_view data);

 private:
  const bool fold_;
  bool line_shown_ = false;      // a part of the line that is not finished yet
  bool return_pending_ = false;  // the last byte was a carriage return
};

// Lines of one or several ranks.
class LineView {
 public:
  explicit LineView(LogLook look) : look_(look) {}
  // What to print for these bytes of an answer. Unfinished lines wait for the rest.
  [[nodiscard]] std::string Show(std::string_view data);
  // The answer ended well: what is left is a line.
  [[nodiscard]] std::string End();
  // The connection broke: lines that were shown will come again. Half a line does, too.
  void Restart();
  // The time to ask for from now on; "" before anything was shown, or where nothing is stamped.
  [[nodiscard]] std::string Since() const;

 private:
  struct Place {
    std::string at;      // of the rank's last line
    uint64_t lines = 0;  // of that time were shown
    uint64_t skip = 0;   // of them are still to come again
  };
  [[nodiscard]] std::string ShowLine(std::string_view line);
  // True for a line that was shown before the connection broke.
  [[nodiscard]] bool IsRepeat(const std::string& rank, std::string_view at);

  const LogLook look_;
  std::string rest_;
  std::map<std::string, Place> places_;  // by rank, as the server writes it; "" = the only one
};

// Of a line what a terminal would show in the end.
[[nodiscard]] std::string_view FoldReturns(std::string_view line);

}  // namespace tide::cli
