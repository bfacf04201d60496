#include "sdk/native/abi.h"

#include <cstdio>
#include <vector>

#include "sdk/native/copy.h"
#include "sdk/native/crc32.h"
#include "sdk/native/data_file.h"
#include "sdk/native/load.h"
#include "sdk/native/slot.h"

using tide::sdk::CopySpan;
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
  std::vector<StoredPiece> wanted(piece_count);
  for (uint64_t i = 0; i < piece_count; ++i) {
    wanted[i] = {.file = pieces[i].file,
                 .offset = pieces[i].offset,
                 .bytes = pieces[i].bytes,
                 .to = static_cast<char*>(pieces[i].to)};
  }
  const tide::Status loaded = tide::sdk::LoadPieces(stored, wanted, threads);
  if (loaded) {
    return TIDE_LOADED;
  }
  std::snprintf(error->text, error->bytes, "%s", loaded.error().message.c_str());
  return loaded.error().code == tide::ErrorCode::kCorrupt ? TIDE_DAMAGED : TIDE_UNREADABLE;
}
