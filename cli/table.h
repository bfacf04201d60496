#pragma once
// Tables for people, measured in terminal cells: a Chinese character takes two, an accent none.

#include <string>
#include <string_view>
#include <vector>

#include "cli/style.h"

namespace tide::cli {

// Cells that `text` takes on a terminal.
[[nodiscard]] size_t DisplayWidth(std::string_view text);
// At most `width` cells of `text`, the last one "…" if something was cut. width >= 1.
[[nodiscard]] std::string CutToWidth(std::string_view text, size_t width);
// One line that cannot steer the terminal: control characters and broken bytes become "?", line
// breaks and tabs become blanks.
[[nodiscard]] std::string Printable(std::string_view text);

struct Column {
  std::string title;
  bool right = false;       // numbers
  size_t min_width = 0;     // may be cut to this many cells; 0 = is never cut
  int drop_rank = 0;        // where the line is too narrow the highest goes first; 0 = never
  bool hide_empty = false;  // no column where every cell is "-" or empty
};

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell for each column; an empty one is shown as "-".
  void Add(std::vector<Cell> row);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Lines that end in '\n'. Nothing is cut where style.width is 0; in accessible style each row
  // is a paragraph of "Title: value".
  [[nodiscard]] std::string Render(const Style& style) const;

 private:
  struct Fit {
    std::vector<size_t> shown;   // indexes of columns
    std::vector<size_t> widths;  // by column
  };
  [[nodiscard]] Fit FitTo(size_t width) const;
  [[nodiscard]] std::string RenderParagraphs() const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace tide::cli
