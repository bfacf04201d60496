#include "sdk/native/abi.h"

#include <cstdio>
#include <span>
#include <vector>

#include "sdk/native/copy.h"
#include "sdk/native/crc32.h"
#include "sdk/native/cuda.h"
#include "sdk/native/data_file.h"
#include "sdk/native/load.h"
#include "sdk/native/slot.h"

using tide::sdk::CopySpan;
using tide::sdk::CudaDriver;
using tide::sdk::DeviceSpan;
using tide::sdk::RunDim;
using tide::sdk::StoredFile;
using tide::sdk::StoredPiece;

uint32_t tide_abi_version() {
  return TIDE_ABI_VERSION;
}

uint32_t tide_crc32(uint32_t crc, const void* data, uint64_t bytes) {
  return tide::sdk::Crc32(crc, data, bytes);
}

void tide_copy(const tide_span* spans, uint64_t count, uint32_t threads) {
  std::vector<CopySpan> copies(count);
  for (uint64_t i = 0; i < count; ++i) {
    copies[i] = {.to = spans[i].to, .from = spans[i].from, .bytes = spans[i].bytes};
  }
  tide::sdk::CopyAll(copies, threads);
}

void* tide_cuda_open(const char* library, tide_message* error) {
  auto driver = tide::sdk::CudaDriver::Open(library);
  if (!driver) {
    std::snprintf(error->text, error->bytes, "%s", driver.error().message.c_str());
    return nullptr;
  }
  return driver->release();
}

int32_t tide_cuda_register(void* cuda, int32_t device, void* memory, uint64_t bytes) {
  return static_cast<CudaDriver*>(cuda)->Register(device, memory, bytes) ? 0 : -1;
}

int32_t tide_cuda_unregister(void* cuda, int32_t device, void* memory) {
  return static_cast<CudaDriver*>(cuda)->Unregister(device, memory) ? 0 : -1;
}

int32_t tide_cuda_copy(void* cuda,
                       const tide_device_span* spans,
                       uint64_t count,
                       tide_message* error) {
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
    std::snprintf(error->text, error->bytes, "%s", copied.error().message.c_str());
  }
  return copied ? 0 : -1;
}

int32_t tide_populate(void* memory, uint64_t bytes) {
  return tide::sdk::Populate(memory, bytes) ? 0 : -1;
}

int32_t tide_settle(void* slot, uint32_t verdict) {
  return tide::sdk::SettleSlot(slot, static_cast<tide::sdk::SlotVerdict>(verdict)) ? 1 : 0;
}

int32_t tide_load(const tide_file* files,
                  uint64_t file_count,
                  const tide_piece* pieces,
                  uint64_t piece_count,
                  uint32_t threads,
                  tide_message* error) {
  std::vector<StoredFile> stored(file_count);
  for (uint64_t i = 0; i < file_count; ++i) {
    const uint64_t chunks = (files[i].bytes + tide::sdk::kChunkBytes - 1) / tide::sdk::kChunkBytes;
    stored[i] = {.path = files[i].path, .bytes = files[i].bytes, .crc32 = {files[i].crc32, chunks}};
  }
  uint64_t dim_count = 0;
  for (uint64_t i = 0; i < piece_count; ++i) {
    dim_count += pieces[i].dim_count;
  }
  std::vector<RunDim> dims;
  dims.reserve(dim_count);  // what the pieces point to stays where it is
  std::vector<StoredPiece> wanted(piece_count);
  for (uint64_t i = 0; i < piece_count; ++i) {
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
  const tide::Status loaded = tide::sdk::LoadPieces(stored, wanted, threads);
  if (loaded) {
    return TIDE_LOADED;
  }
  std::snprintf(error->text, error->bytes, "%s", loaded.error().message.c_str());
  return loaded.error().code == tide::ErrorCode::kCorrupt ? TIDE_DAMAGED : TIDE_UNREADABLE;
}
