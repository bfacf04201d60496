#include "scheduler/store/database.h"

namespace tide {

Result<int64_t> IntAt(const SqlRow& row, size_t column, std::string_view what) {
  if (column < row.size()) {
    if (const auto* value = std::get_if<int64_t>(&row[column])) {
      return *value;
    }
  }
  return Fail(ErrorCode::kCorrupt, std::string(what) + " is not a whole number");
}

Result<std::string> TextAt(const SqlRow& row, size_t column, std::string_view what) {
  if (column < row.size()) {
    if (const auto* value = std::get_if<std::string>(&row[column])) {
      return *value;
    }
  }
  return Fail(ErrorCode::kCorrupt, std::string(what) + " is not text");
}

}  // namespace tide
