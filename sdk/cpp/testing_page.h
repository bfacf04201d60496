#pragma once
// A rank's page as its agent holds it, and checkpoints for tests.

#include <fstream>
#include <string>

#include "sdk/cpp/page.h"
#include "sdk/cpp/text.h"

namespace tide::cpp {

// A zeroed page with its header, as the agent makes it.
inline MappedPage MakeTestingPage(const std::string& path) {
  std::string page("TIDE\1\0\0\0", 8);
  page.resize(kPageBytes);
  std::ofstream(path, std::ios::binary) << page;
  return OrThrow(MappedPage::Map(path));
}

// An order that all ranks have agreed on.
inline void Commit(Page& page, PageOrder order, int64_t at_step) {
  page.at_step = at_step;
  page.state = kStateCommitted;
  page.order = order;
  page.seq = page.seq + 1;
}

}  // namespace tide::cpp
