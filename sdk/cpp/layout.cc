#include "sdk/cpp/layout.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "sdk/native/copy.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

namespace tide::cpp {
namespace {

std::string LocalPrefix(int64_t rank) {
  const std::string digits = std::to_string(rank);
  constexpr size_t kDigits = 5;
  return "local/" + std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits + "/";
}

std::string PairText(int64_t first, int64_t last) {
  return "[" + std::to_string(first) + "," + std::to_string(last) + "]";
}

// Gives entries their places and returns the safetensors header. The format allows the spaces at
// its end for exactly this purpose: that data starts on a block.
std::string Header(int64_t rank, std::vector<Entry>& entries) {
  std::string table = R"({"__metadata__":{"format":")" + std::string(sdk::kFormat) +
                      R"(","rank":")" + std::to_string(rank) + "\"}";
  uint64_t position = 0;
  for (Entry& entry : entries) {
    const int64_t count = entry.range.last - entry.range.first;
    const bool is_whole = count == CountOf(entry.whole);
    const std::vector<int64_t> shape = is_whole ? entry.whole.shape : std::vector<int64_t>{count};
    entry.offset = position;
    position += entry.bytes();
    table.append(",").append(sdk::JsonQuote(entry.name)).append(R"(:{"dtype":")");
    table.append(DtypeName(entry.whole.dtype)).append(R"(","shape":)").append(ShapeText(shape));
    table.append(R"(,"data_offsets":)")
        .append(PairText(static_cast<int64_t>(entry.offset), static_cast<int64_t>(position)))
        .append("}");
  }
  table += "}";
  const size_t length = 8 + table.size();
  table.append((sdk::kBlockBytes - length % sdk::kBlockBytes) % sdk::kBlockBytes, ' ');
  std::string header;
  for (unsigned byte = 0; byte < 8; ++byte) {
    header += static_cast<char>(table.size() >> (8 * byte) & 0xFFU);
  }
  return header + table;
}

unsigned CopyThreads() {
  cpu_set_t cpus;
  constexpr int kMost = 4;
  const bool known = ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  return known ? static_cast<unsigned>(std::clamp(CPU_COUNT(&cpus), 1, kMost)) : 1;
}

// A tensor's record up to where it lies.
std::string RecordHead(const Entry& entry) {
  return sdk::JsonQuote(entry.name) + R"(:{"dtype":")" + std::string(DtypeName(entry.whole.dtype)) +
         R"(","shape":)" + ShapeText(entry.whole.shape);
}

bool IsLocal(const Entry& entry) {
  return entry.name.starts_with("local/");
}

// The ranges of tensors that ranks share.
std::string DescribeRanges(const Layout& layout, const std::string& file) {
  std::string text = "{";
  for (const Entry& entry : layout.entries) {
    if (IsLocal(entry)) {
      continue;
    }
    text.append(text.size() == 1 ? "" : ",").append(RecordHead(entry));
    text.append(R"(,"parts":[{"file":)").append(sdk::JsonQuote(file));
    text.append(",\"offset\":").append(std::to_string(entry.offset));
    text.append(",\"length\":").append(std::to_string(entry.bytes())).append(",\"range\":");
    text.append(PairText(entry.range.first, entry.range.last)).append("}]}");
  }
  return text + "}";
}

std::string DescribeLocal(const Layout& layout) {
  std::string text = "{";
  for (const Entry& entry : layout.entries) {
    if (IsLocal(entry)) {
      text.append(text.size() == 1 ? "" : ",").append(RecordHead(entry));
      text.append(",\"offset\":").append(std::to_string(entry.offset)).append("}");
    }
  }
  return text + "}";
}

std::string TensorTrees(const std::map<std::string, Tensor>& tensors, const std::string& prefix) {
  std::map<std::string, std::string> nodes;
  for (const auto& [name, tensor] : tensors) {
    nodes.emplace(name, TensorNode(prefix + name, tensor.dtype));
  }
  return TreesText(nodes);
}

std::string ValueTrees(const std::map<std::string, Value>& values) {
  std::map<std::string, std::string> nodes;
  for (const auto& [name, value] : values) {
    nodes.emplace(name, EncodeValue(value));
  }
  return TreesText(nodes);
}

}  // namespace

uint64_t Entry::bytes() const {
  return static_cast<uint64_t>((range.last - range.first) * ItemBytes(whole.dtype));
}

const char* Entry::data() const {
  return static_cast<const char*>(whole.data) + range.first * ItemBytes(whole.dtype);
}

std::map<std::string, Range> ShareOf(const std::map<std::string, Tensor>& tensors,
                                     int64_t rank,
                                     int64_t world) {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    total += BytesOf(tensor);
  }
  // total * rank may not fit into 64 bits; the quotient does, and is that of Python.
  const auto border = [&](int64_t at) { return total / world * at + total % world * at / world; };
  const int64_t begin = border(rank);
  const int64_t end = border(rank + 1);
  std::map<std::string, Range> mine;
  int64_t start = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t size = BytesOf(tensor);
    const int64_t item = ItemBytes(tensor.dtype);
    // Both borders are rounded down the same way, so that neighbours meet exactly.
    const Range range{.first = std::clamp<int64_t>(begin - start, 0, size) / item,
                      .last = std::clamp<int64_t>(end - start, 0, size) / item};
    if (range.last > range.first || (size == 0 && rank == 0)) {
      mine.emplace(name, range);
    }
    start += size;
  }
  return mine;
}

Layout LayOut(const Objects& objects, int64_t rank, int64_t world) {
  Layout layout;
  for (const auto& [name, range] : ShareOf(objects.replicated, rank, world)) {
    layout.entries.push_back(
        {.name = "replicated/" + name, .whole = objects.replicated.at(name), .range = range});
  }
  for (const auto& [name, tensor] : objects.local) {
    layout.entries.push_back({.name = LocalPrefix(rank) + name,
                              .whole = tensor,
                              .range = {.first = 0, .last = CountOf(tensor)}});
  }
  // Wide items first: every tensor then starts at a multiple of its item's size, as readers that
  // map files expect.
  std::sort(layout.entries.begin(), layout.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(-ItemBytes(a.whole.dtype), std::string_view(a.name)) <
           std::tuple(-ItemBytes(b.whole.dtype), std::string_view(b.name));
  });
  layout.header = Header(rank, layout.entries);
  layout.bytes = layout.header.size();
  for (Entry& entry : layout.entries) {
    entry.offset += layout.header.size();
    layout.bytes += entry.bytes();
  }
  return layout;
}

uint64_t PaddedBytes(const Layout& layout) {
  return (layout.bytes + sdk::kBlockBytes - 1) / sdk::kBlockBytes * sdk::kBlockBytes;
}

void FillFile(const Layout& layout, char* to) {
  std::copy(layout.header.begin(), layout.header.end(), to);
  std::vector<sdk::CopySpan> spans;
  for (const Entry& entry : layout.entries) {
    if (entry.bytes() > 0) {
      spans.push_back({.to = to + entry.offset, .from = entry.data(), .bytes = entry.bytes()});
    }
  }
  sdk::CopyAll(spans, CopyThreads());
  std::memset(to + layout.bytes, 0, PaddedBytes(layout) - layout.bytes);
}

void DescribePart(const Objects& objects, const Layout& layout, sdk::Ticket& ticket) {
  ticket.part_head = R"({"format":")" + std::string(sdk::kFormat) + R"(","step":)" +
                     std::to_string(ticket.step) + R"(,"attempt":)" +
                     std::to_string(ticket.attempt) + R"(,"start":")" + ticket.start +
                     R"(","world":)" + std::to_string(ticket.world) + R"(,"rank":)" +
                     std::to_string(ticket.rank) + R"(,"files":{)" + sdk::JsonQuote(ticket.file) +
                     R"(:{"bytes":)" + std::to_string(layout.bytes) + R"(,"crc32":)";
  ticket.part_tail = R"(}},"tensors":)" + DescribeRanges(layout, ticket.file) + R"(,"global":)" +
                     (ticket.rank == 0 ? ValueTrees(objects.global) : "{}");
  ticket.shared = R"({"replicated":)" + TensorTrees(objects.replicated, "replicated/") +
                  R"(,"sharded":{},"boxes":{}})";
  ticket.text = R"({"file":)" + sdk::JsonQuote(ticket.file) + R"(,"local":)" +
                TensorTrees(objects.local, LocalPrefix(ticket.rank)) + R"(,"tensors":)" +
                DescribeLocal(layout) + "}";
  ticket.table.clear();
}

}  // namespace tide::cpp
