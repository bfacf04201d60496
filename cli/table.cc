#include "cli/table.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "common/base/utf8.h"

namespace tide::cli {
namespace {

constexpr size_t kGap = 2;
constexpr std::string_view kCutMark = "…";

struct Range {
  char32_t first;
  char32_t last;
};
// Unicode ranges of width 2 (East Asian wide, emoji) and 0 (combining marks, joiners).
constexpr std::array<Range, 15> kWide = {{{0x1100, 0x115F},
                                          {0x231A, 0x231B},
                                          {0x2705, 0x2705},
                                          {0x274C, 0x274C},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0x33FF},
                                          {0x3400, 0x4DBF},
                                          {0x4E00, 0x9FFF},
                                          {0xA000, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0x1F300, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 9> kNoWidth = {{{0x0300, 0x036F},
                                            {0x0483, 0x0489},
                                            {0x0591, 0x05BD},
                                            {0x064B, 0x065F},
                                            {0x1AB0, 0x1AFF},
                                            {0x1DC0, 0x1DFF},
                                            {0x200B, 0x200F},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F}}};

template <size_t n>
bool IsIn(const std::array<Range, n>& ranges, char32_t point) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return point >= range.first && point <= range.last;
  });
}

size_t PointWidth(char32_t point) {
  if (point == 0 || IsIn(kNoWidth, point)) {
    return 0;
  }
  return IsIn(kWide, point) ? 2 : 1;
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const size_t used = DisplayWidth(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (size_t pos = 0; pos < text.size();) {
    width += PointWidth(NextCodePoint(text, pos).value_or(U'?'));
  }
  return width;
}

std::string CutToWidth(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) {
    return std::string(text);
  }
  size_t used = 0;
  size_t end = 0;
  for (size_t pos = 0; pos < text.size(); end = pos) {
    const size_t next = PointWidth(NextCodePoint(text, pos).value_or(U'?'));
    if (used + next + 1 > width) {
      break;
    }
    used += next;
  }
  return std::string(text.substr(0, end)) + std::string(kCutMark);
}

std::string Printable(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const auto point = NextCodePoint(text, pos);
    if (point == U'\n' || point == U'\t') {
      out += ' ';
    } else if (!point || SteersTerminal(*point)) {
      out += '?';
    } else {
      out += text.substr(begin, pos - begin);
    }
  }
  return out;
}

void Table::Add(std::vector<Cell> row) {
  row.resize(columns_.size());
  for (Cell& cell : row) {
    cell.text = cell.text.empty() ? "-" : Printable(cell.text);
  }
  rows_.push_back(std::move(row));
}

Table::Fit Table::FitTo(size_t width) const {
  Fit fit;
  fit.widths.resize(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    bool hidden = columns_[i].hide_empty;
    fit.widths[i] = DisplayWidth(columns_[i].title);
    for (const auto& row : rows_) {
      fit.widths[i] = std::max(fit.widths[i], DisplayWidth(row[i].text));
      hidden = hidden && row[i].text == "-";
    }
    if (!hidden) {
      fit.shown.push_back(i);
    }
  }
  if (width == 0) {
    return fit;
  }
  const auto total = [&](bool narrow) {
    size_t sum = fit.shown.empty() ? 0 : (fit.shown.size() - 1) * kGap;
    for (const size_t i : fit.shown) {
      const size_t least = columns_[i].min_width;
      sum += narrow && least > 0 ? std::min(least, fit.widths[i]) : fit.widths[i];
    }
    return sum;
  };
  while (total(true) > width) {
    const auto most = std::max_element(fit.shown.begin(), fit.shown.end(), [&](size_t a, size_t b) {
      return columns_[a].drop_rank < columns_[b].drop_rank;
    });
    if (most == fit.shown.end() || columns_[*most].drop_rank == 0) {
      break;
    }
    fit.shown.erase(most);
  }
  // The rightmost columns give way first; they hold the free text.
  for (auto i = fit.shown.rbegin(); i != fit.shown.rend() && total(false) > width; ++i) {
    const size_t least = columns_[*i].min_width;
    if (least > 0 && fit.widths[*i] > least) {
      fit.widths[*i] -= std::min(total(false) - width, fit.widths[*i] - least);
    }
  }
  return fit;
}

std::string Table::RenderParagraphs() const {
  std::string out;
  for (const auto& row : rows_) {
    out += out.empty() ? "" : "\n";
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (row[i].text != "-") {
        out += columns_[i].title + ": " + row[i].text + "\n";
      }
    }
  }
  return out;
}

std::string Table::Render(const Style& style) const {
  if (style.accessible) {
    return RenderParagraphs();
  }
  const Fit fit = FitTo(style.width);
  std::string out;
  const auto line = [&](const auto& text_of, const auto& tone_of) {
    std::string blanks;  // written before the next cell, so that no line ends in blanks
    for (const size_t i : fit.shown) {
      const bool cut = style.width > 0 && columns_[i].min_width > 0;
      const std::string text = cut ? CutToWidth(text_of(i), fit.widths[i]) : text_of(i);
      const std::string padded = Padded(text, fit.widths[i], columns_[i].right);
      const size_t begin = padded.find_first_not_of(' ');
      const size_t end = padded.find_last_not_of(' ');
      if (begin == std::string::npos) {
        blanks += padded + std::string(kGap, ' ');
        continue;
      }
      out += blanks + padded.substr(0, begin) +
             style.Paint(tone_of(i), padded.substr(begin, end + 1 - begin));
      blanks = padded.substr(end + 1) + std::string(kGap, ' ');
    }
    out += "\n";
  };
  line([&](size_t i) { return columns_[i].title; }, [](size_t) { return Tone::kBold; });
  for (const auto& row : rows_) {
    line([&](size_t i) { return row[i].text; }, [&](size_t i) { return row[i].tone; });
  }
  return out;
}

}  // namespace tide::cli
