#include "scheduler/admin/dump_format.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "scheduler/store/text.h"

namespace tide::admin {
namespace {

using Json = simdjson::dom::element;

constexpr std::string_view kBackupWord = "backup";
constexpr std::string_view kSnapshotWord = "snapshot";

void AppendReal(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? R"({"real":"nan"})"
                             : (value > 0 ? R"({"real":"inf"})" : R"({"real":"-inf"})");
    return;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view text(digits.data(), end.ptr);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) {
    out += ".0";  // else it came back as a whole number
  }
}

void AppendValue(std::string& out, const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    out += std::to_string(*number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    AppendReal(out, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (IsUtf8(*text)) {
      AppendJsonString(out, *text);
    } else {
      out += "{\"hex\":\"" + ToHex(*text) + "\"}";
    }
  } else {
    out += "null";
  }
}

// Appends the items with commas between them.
template <typename List, typename Append>
void AppendList(std::string& out, const List& list, Append append) {
  bool first = true;
  for (const auto& each : list) {
    out += first ? "" : ",";
    first = false;
    append(each);
  }
}

void AppendMember(std::string& out, std::string_view key, std::string_view text) {
  out += ",\"";
  out += key;
  out += "\":";
  AppendJsonString(out, ReadableText(text));
}

struct Encoder {
  std::string out;

  void operator()(const DumpHeader& header) {
    out = "{\"tide_dump\":" + std::to_string(header.format);
    AppendMember(out, "kind", header.kind == DumpKind::kBackup ? kBackupWord : kSnapshotWord);
    out += ",\"schema\":" + std::to_string(header.schema);
    AppendMember(out, "tide", header.tide);
    AppendMember(out, "taken_at", header.taken_at);
    AppendMember(out, "store", header.store);
    out += '}';
  }

  void operator()(const TableStart& start) {
    out = "{\"table\":";
    AppendJsonString(out, start.table);
    out += ",\"columns\":[";
    AppendList(out, start.columns, [this](const auto& name) { AppendJsonString(out, name); });
    out += "]}";
  }

  void operator()(const SqlRow& row) {
    out = "[";
    AppendList(out, row, [this](const SqlValue& value) { AppendValue(out, value); });
    out += ']';
  }

  void operator()(const DumpFooter& footer) {
    out = "{\"end\":true,\"rows\":{";
    AppendList(out, footer.rows, [this](const auto& each) {
      AppendJsonString(out, each.first);
      out += ":" + std::to_string(each.second);
    });
    out += '}';
    AppendMember(out, "crc32", footer.crc32);
    out += '}';
  }
};

std::unexpected<Error> Damaged(const std::string& what) {
  return Fail(ErrorCode::kCorrupt, what);
}

Result<std::string> TextOf(Json object, std::string_view key) {
  std::string_view text;
  if (object[key].get(text) != simdjson::SUCCESS) {
    return Damaged("\"" + std::string(key) + "\" is missing");
  }
  return std::string(text);
}

Result<int> SmallNumberOf(Json object, std::string_view key) {
  int64_t number = 0;
  if (object[key].get(number) != simdjson::SUCCESS || !std::in_range<int>(number)) {
    return Damaged("\"" + std::string(key) + "\" is missing");
  }
  return static_cast<int>(number);
}

Result<DumpLine> HeaderFrom(Json json) {
  DumpHeader header;
  TIDE_ASSIGN(header.format, SmallNumberOf(json, "tide_dump"));
  if (header.format > kDumpFormat) {
    return Fail(ErrorCode::kNewerSchema,
                "a newer Tide wrote it (format " + std::to_string(header.format) +
                    ", this program knows " + std::to_string(kDumpFormat) +
                    "): install that version");
  }
  TIDE_ASSIGN(const std::string kind, TextOf(json, "kind"));
  if (kind != kBackupWord && kind != kSnapshotWord) {
    return Damaged("it is neither a backup nor a snapshot");
  }
  header.kind = kind == kBackupWord ? DumpKind::kBackup : DumpKind::kSnapshot;
  TIDE_ASSIGN(header.schema, SmallNumberOf(json, "schema"));
  TIDE_ASSIGN(header.tide, TextOf(json, "tide"));
  TIDE_ASSIGN(header.taken_at, TextOf(json, "taken_at"));
  TIDE_ASSIGN(header.store, TextOf(json, "store"));
  return header;
}

Result<DumpLine> TableFrom(Json json) {
  TableStart start;
  TIDE_ASSIGN(start.table, TextOf(json, "table"));
  simdjson::dom::array columns;
  if (json["columns"].get(columns) != simdjson::SUCCESS) {
    return Damaged("\"columns\" is missing");
  }
  for (const Json column : columns) {
    std::string_view name;
    if (column.get(name) != simdjson::SUCCESS) {
      return Damaged("a column's name is not a string");
    }
    start.columns.emplace_back(name);
  }
  return start;
}

Result<DumpLine> FooterFrom(Json json) {
  DumpFooter footer;
  TIDE_ASSIGN(footer.crc32, TextOf(json, "crc32"));
  simdjson::dom::object rows;
  if (json["rows"].get(rows) != simdjson::SUCCESS) {
    return Damaged("\"rows\" is missing");
  }
  for (const auto& [table, value] : rows) {
    int64_t count = 0;
    if (value.get(count) != simdjson::SUCCESS) {
      return Damaged("a number of rows is not a whole number");
    }
    footer.rows[std::string(table)] = count;
  }
  return footer;
}

Result<SqlValue> ObjectValue(Json json) {
  std::string_view text;
  if (json["real"].get(text) == simdjson::SUCCESS) {
    if (text == "inf" || text == "-inf") {
      return text == "inf" ? HUGE_VAL : -HUGE_VAL;
    }
    return text == "nan" ? Result<SqlValue>(std::nan("")) : Damaged("a number cannot be read");
  }
  std::string bytes;
  if (json["hex"].get(text) == simdjson::SUCCESS && FromHex(text, bytes)) {
    return bytes;
  }
  return Damaged("a value cannot be read");
}

Result<SqlValue> ValueFrom(Json json) {
  std::string_view text;
  int64_t number = 0;
  double real = 0;
  if (json.get(text) == simdjson::SUCCESS) {
    return std::string(text);
  }
  if (json.is_null()) {
    return std::monostate{};
  }
  // By its type: a whole number can be had as a real, too.
  if (json.type() == simdjson::dom::element_type::DOUBLE && json.get(real) == simdjson::SUCCESS) {
    return real;
  }
  if (json.get(number) == simdjson::SUCCESS) {
    return number;
  }
  return json.is_object() ? ObjectValue(json) : Damaged("a value cannot be read");
}

Result<DumpLine> RowFrom(simdjson::dom::array values) {
  SqlRow row;
  for (const Json value : values) {
    TIDE_ASSIGN(SqlValue each, ValueFrom(value));
    row.push_back(std::move(each));
  }
  return row;
}

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t n = 0; n < table.size(); ++n) {
    uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1U) != 0 ? 0xedb88320U ^ (crc >> 1U) : crc >> 1U;
    }
    table[n] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

std::string EncodeLine(const DumpLine& line) {
  Encoder encoder;
  std::visit(encoder, line);
  return std::move(encoder.out);
}

Result<DumpLine> DecodeLine(std::string_view text) {
  // Kept between calls: their memory is used again.
  static thread_local simdjson::dom::parser parser;
  static thread_local std::string padded;
  padded.assign(text);
  padded.resize(text.size() + simdjson::SIMDJSON_PADDING);
  Json json;
  if (const auto error = parser.parse(padded.data(), text.size(), false).get(json)) {
    return Damaged(std::string("not JSON: ") + simdjson::error_message(error));
  }
  simdjson::dom::array values;
  if (json.get(values) == simdjson::SUCCESS) {
    return RowFrom(values);
  }
  if (!json.is_object()) {
    return Damaged("neither a row nor a table");
  }
  const auto has = [&](std::string_view key) { return json[key].error() == simdjson::SUCCESS; };
  if (has("tide_dump")) {
    return HeaderFrom(json);
  }
  if (has("table")) {
    return TableFrom(json);
  }
  return has("end") ? FooterFrom(json) : Damaged("neither a row nor a table");
}

void Crc32::Add(std::string_view bytes) {
  for (const char c : bytes) {
    state_ = kCrcTable[(state_ ^ static_cast<uint8_t>(c)) & 0xffU] ^ (state_ >> 8U);
  }
}

std::string Crc32::Hex() const {
  const uint32_t value = ~state_;
  std::string bytes;
  for (const uint32_t shift : {24U, 16U, 8U, 0U}) {
    bytes += static_cast<char>((value >> shift) & 0xffU);
  }
  return ToHex(bytes);
}

}  // namespace tide::admin
