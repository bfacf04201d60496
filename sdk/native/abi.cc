#include "sdk/native/abi.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <vector>

#include "sdk/native/copy.h"
#include "sdk/native/crc32.h"
#include "sdk/native/cuda.h"
#include "sdk/native/data_file.h"
#include "sdk/native/load.h"
#include "sdk/native/sections.h"
#include "sdk/native/slot.h"

using tide::sdk::CopySpan;
using tide::sdk::CudaDriver;
using tide::sdk::DeviceSpan;
using tide::sdk::RunDim;
using tide::sdk::SectionRecord;
using tide::sdk::StoredFile;
using tide::sdk::StoredPiece;

namespace {

// The value of `call`, or `failed` where it throws: mostly for want of memory.
template <typename Call>
int32_t Guarded(int32_t failed, tide_message* error, const Call& call) noexcept {
  try {
    return call();
  } catch (const std::exception& thrown) {
    if (error != nullptr) {
      std::snprintf(error->text, error->bytes, "%s", thrown.what());
    }
    return failed;
  }
}

void Say(tide_message* error, const tide::Error& why) {
  std::snprintf(error->text, error->bytes, "%s", why.message.c_str());
}

tide::Status Load(std::span<const tide_file> files,
                  std::span<const tide_piece> pieces,
                  const tide_loading& how) {
  std::vector<StoredFile> stored(files.size());
  for (uint64_t i = 0; i < files.size(); ++i) {
    const uint64_t chunks = (files[i].bytes + tide::sdk::kChunkBytes - 1) / tide::sdk::kChunkBytes;
    stored[i] = {.path = files[i].path, .bytes = files[i].bytes, .crc32 = {files[i].crc32, chunks}};
  }
  uint64_t dim_count = 0;
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    dim_count += pieces[i].dim_count;
  }
  std::vector<RunDim> dims;
  dims.reserve(dim_count);  // what the pieces point to stays where it is
  std::vector<StoredPiece> wanted(pieces.size());
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    const size_t first = dims.size();
    for (uint64_t k = 0; k < pieces[i].dim_count; ++k) {
      const tide_dim& dim = pieces[i].dims[k];
      dims.push_back({dim.count, dim.from_stride, dim.to_stride});
    }
    wanted[i] = {.file = pieces[i].file,
                 .offset = pieces[i].offset,
                 .runs = {.bytes = pieces[i].bytes, .dims = std::span(dims).subspan(first)},
                 .to = static_cast<char*>(pieces[i].to)};
  }
  return how.ring == nullptr ? tide::sdk::LoadPieces(stored, wanted, how.threads)
                             : tide::sdk::LoadPiecesTogether(
                                   {.path = how.ring, .ranks = how.ranks, .rank = how.rank},
                                   stored,
                                   wanted,
                                   how.threads);
}

tide::Status FindRows(tide_row_search& search) {
  uint64_t box_words = 0;
  for (uint64_t i = 0; i < search.tensor_count; ++i) {
    if (search.wanted[i] >= 0) {
      box_words = std::max(box_words, static_cast<uint64_t>(search.wanted[i]) + 2 * search.dims[i]);
    }
  }
  std::vector<SectionRecord> sections(search.section_count);
  for (uint64_t i = 0; i < search.section_count; ++i) {
    sections[i] = {.text = search.sections[i].text,
                   .table = search.sections[i].table,
                   .crc32 = static_cast<uint32_t>(search.sections[i].crc32)};
  }
  std::vector<int64_t> found;
  TIDE_TRY(tide::sdk::FindRows(search.fd,
                               sections,
                               {.dims = {search.dims, search.tensor_count},
                                .places = {search.wanted, search.tensor_count},
                                .borders = {search.boxes, box_words}},
                               found));
  search.words = found.size();
  if (found.size() <= search.room) {
    std::copy(found.begin(), found.end(), search.rows);
  }
  return {};
}

int32_t Verdict(const tide::Status& status, tide_message* error) {
  if (status) {
    return TIDE_LOADED;
  }
  Say(error, status.error());
  return status.error().code == tide::ErrorCode::kCorrupt ? TIDE_DAMAGED : TIDE_UNREADABLE;
}

}  // namespace

uint32_t tide_abi_version() {
  return TIDE_ABI_VERSION;
}

uint32_t tide_crc32(uint32_t crc, const void* data, uint64_t bytes) {
  return tide::sdk::Crc32(crc, data, bytes);
}

void tide_copy(const tide_span* spans, uint64_t count, uint32_t threads) {
  const auto copy = [&] {
    std::vector<CopySpan> copies(count);
    for (uint64_t i = 0; i < count; ++i) {
      copies[i] = {.to = spans[i].to, .from = spans[i].from, .bytes = spans[i].bytes};
    }
    tide::sdk::CopyAll(copies, threads);
    return 0;
  };
  if (Guarded(-1, nullptr, copy) != 0) {
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(spans[i].to, spans[i].from, spans[i].bytes);
    }
  }
}

void* tide_cuda_open(const char* library, tide_message* error) {
  CudaDriver* opened = nullptr;
  Guarded(-1, error, [&] {
    auto driver = CudaDriver::Open(library);
    if (!driver) {
      Say(error, driver.error());
      return -1;
    }
    opened = driver->release();
    return 0;
  });
  return opened;
}

int32_t tide_cuda_register(void* cuda, int32_t device, void* memory, uint64_t bytes) {
  return Guarded(-1, nullptr, [&] {
    return static_cast<CudaDriver*>(cuda)->Register(device, memory, bytes) ? 0 : -1;
  });
}

int32_t tide_cuda_unregister(void* cuda, int32_t device, void* memory) {
  return Guarded(-1, nullptr, [&] {
    return static_cast<CudaDriver*>(cuda)->Unregister(device, memory) ? 0 : -1;
  });
}

int32_t tide_cuda_copy(void* cuda,
                       const tide_device_span* spans,
                       uint64_t count,
                       tide_message* error) {
  return Guarded(-1, error, [&] {
    std::vector<DeviceSpan> copies(count);
    for (uint64_t i = 0; i < count; ++i) {
      copies[i] = {.to = spans[i].to,
                   .from = spans[i].from,
                   .bytes = spans[i].bytes,
                   .stream = spans[i].stream,
                   .device = spans[i].device};
    }
    const tide::Status copied = static_cast<CudaDriver*>(cuda)->CopyToHost(copies);
    if (!copied) {
      Say(error, copied.error());
    }
    return copied ? 0 : -1;
  });
}

int32_t tide_populate(void* memory, uint64_t bytes) {
  return Guarded(-1, nullptr, [&] { return tide::sdk::Populate(memory, bytes) ? 0 : -1; });
}

int32_t tide_settle(void* slot, uint32_t verdict) {
  return tide::sdk::SettleSlot(slot, static_cast<tide::sdk::SlotVerdict>(verdict)) ? 1 : 0;
}

int32_t tide_load(const tide_file* files,
                  uint64_t file_count,
                  const tide_piece* pieces,
                  uint64_t piece_count,
                  const tide_loading* how,
                  tide_message* error) {
  return Guarded(TIDE_UNREADABLE, error, [&] {
    return Verdict(Load({files, file_count}, {pieces, piece_count}, *how), error);
  });
}

int32_t tide_find_rows(tide_row_search* search, tide_message* error) {
  return Guarded(TIDE_UNREADABLE, error, [&] { return Verdict(FindRows(*search), error); });
}
