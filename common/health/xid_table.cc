#include "common/health/xid_table.h"

#include <algorithm>
#include <array>

namespace tide::health {
namespace {

struct Entry {
  int32_t code;
  std::string_view meaning;
  FaultAction action;
};

using enum FaultAction;

constexpr std::array kTable = {
    Entry{8, "GPU channel timed out", kCount},
    Entry{13, "graphics or SM exception, mostly a bug of the job", kCount},
    Entry{31, "GPU memory page fault, mostly a bug of the job", kCount},
    Entry{32, "bad push buffer", kCount},
    Entry{37, "unimplemented method", kNone},
    Entry{38, "driver firmware error", kCount},
    Entry{43, "GPU channel reset, mostly a bug of the job", kCount},
    Entry{44, "context switch fault", kDrainNow},
    Entry{45, "clean-up after an earlier fault", kNone},
    Entry{46, "GPU stopped processing", kDrainNow},
    Entry{48, "double-bit memory error", kDrainNow},
    Entry{54, "auxiliary power not connected", kDrainNow},
    Entry{57, "memory interface error", kDrainNow},
    Entry{58, "memory interface error", kDrainNow},
    Entry{61, "power management unit breakpoint", kDrainNow},
    Entry{62, "power management unit halted", kDrainNow},
    Entry{63, "memory row to be remapped at the next reset", kDrainAfter},
    Entry{64, "memory row could not be remapped", kDrainNow},
    Entry{66, "illegal access by the driver", kCount},
    Entry{67, "illegal access by the driver", kCount},
    Entry{68, "video decoder exception", kCount},
    Entry{69, "graphics engine class error", kDrainAfter},
    Entry{73, "video encoder error", kCount},
    Entry{74, "NVLink error", kDrainNow},
    Entry{78, "virtual GPU start error", kNone},
    Entry{79, "GPU has fallen off the bus", kDrainNow},
    Entry{80, "push buffer checksum mismatch", kCount},
    Entry{92, "many single-bit memory errors", kCount},
    Entry{93, "InfoROM wear limit", kNone},
    Entry{94, "contained memory error, only one process is hurt", kRestartJob},
    Entry{95, "uncontained memory error, results are suspect", kDrainNow},
    Entry{109, "context switch timed out", kDrainNow},
    Entry{110, "security fault", kDrainNow},
    Entry{119, "GPU system processor does not answer", kDrainNow},
    Entry{120, "GPU system processor error", kDrainNow},
    Entry{121, "chip-to-chip link error", kCount},
    Entry{122, "SPI access failed", kDrainNow},
    Entry{123, "power management unit does not answer", kDrainNow},
    Entry{124, "SPI or InfoROM error", kDrainNow},
    Entry{125, "InfoROM file system error", kDrainNow},
    Entry{136, "NVLink training failed", kDrainNow},
    Entry{137, "NVLink privilege error, mostly a bug of the job", kCount},
    Entry{140, "memory error escaped correction", kDrainNow},
    Entry{141, "CUDA fast path error", kCount},
    Entry{142, "video encoder error", kCount},
    Entry{143, "GPU could not be initialised", kDrainNow},
    Entry{144, "NVLink error (SAW)", kCount},
    Entry{145, "NVLink error (RLW)", kCount},
    Entry{146, "NVLink error (TLW)", kCount},
    Entry{147, "NVLink error (TREX)", kCount},
    Entry{148, "NVLink error (NVLPW)", kCount},
    Entry{149, "NVLink error (NETIR)", kCount},
    Entry{150, "NVLink error (MSE)", kCount},
    Entry{151, "key rotation error", kDrainNow},
    Entry{152, "deep learning accelerator error", kCount},
    Entry{153, "deep learning accelerator error", kCount},
    Entry{154, "driver changed its recovery action", kCount},
    Entry{155, "NVLink error reported by software", kDrainNow},
    Entry{156, "defective unit retired at the next reset", kDrainAfter},
    Entry{157, "defective unit could not be retired", kDrainNow},
    Entry{158, "fatal GPU timeout", kDrainNow},
    Entry{159, "coherent host interface error", kCount},
    Entry{160, "channel retirement", kCount},
    Entry{161, "channel retirement", kCount},
    Entry{162, "power smoothing engaged again", kCount},
    Entry{163, "power smoothing cannot be kept up", kCount},
    Entry{164, "power smoothing wear notice", kCount},
    Entry{165, "power smoothing wear notice", kCount},
    Entry{166, "NVLink error in confidential computing", kCount},
    Entry{167, "fatal PCIe timeout", kDrainNow},
    Entry{168, "GPU runs with less memory", kDrainNow},
    Entry{169, "security processor halted", kDrainNow},
    Entry{170, "NVLink interrupt in confidential computing", kCount},
    Entry{171, "double-bit error in DRAM", kDrainNow},
    Entry{172, "double-bit error in SRAM", kDrainNow},
    Entry{173, "fatal chip-to-chip link error", kDrainNow},
    Entry{174, "channel killed silently", kCount},
    Entry{175, "memory subsystem error", kDrainNow},
    Entry{176, "corrected PCIe errors", kCount},
};

static_assert(std::ranges::is_sorted(kTable, std::ranges::less_equal{}, &Entry::code),
              "each code once, in order");

constexpr Judgement kUnknown{"unknown Xid", kCount};
constexpr Judgement kLinkDown{"network port lost its link", kDrainAfter};

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || text[at - 1] == ' ';
    const size_t end = at + word.size();
    if (starts && (end == text.size() || text[end] == ' ')) {
      return true;
    }
  }
  return false;
}

// "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
Judgement JudgeRecoveryAction(std::string_view detail) {
  const size_t to = detail.rfind(" to 0x");
  const char digit = to == std::string_view::npos || to + 6 >= detail.size() ? '?' : detail[to + 6];
  switch (digit) {
    case '0':
      return {"driver needs no recovery any more", kNone};
    case '1':
      return {"driver asks for a GPU reset", kDrainNow};
    case '2':
      return {"driver asks for a reboot", kDrainNow};
    case '3':
      return {"driver asks to end peer-to-peer traffic", kDrainAfter};
    case '4':
      return {"driver asks to drain and reset", kDrainAfter};
    default:
      return JudgeXid(154);
  }
}

}  // namespace

std::string_view FaultActionName(FaultAction action) {
  switch (action) {
    case kNone:
      return "none";
    case kCount:
      return "count";
    case kRestartJob:
      return "restart_job";
    case kDrainAfter:
      return "drain_after";
    case kDrainNow:
      return "drain_now";
  }
  return "count";
}

Judgement JudgeXid(int32_t code) {
  const auto* const entry = std::ranges::lower_bound(kTable, code, {}, &Entry::code);
  if (entry == kTable.end() || entry->code != code) {
    return kUnknown;
  }
  return {entry->meaning, entry->action};
}

Judgement Judge(const KernelFault& fault) {
  if (fault.kind == FaultKind::kLinkDown) {
    return kLinkDown;
  }
  if (fault.code == 154) {
    return JudgeRecoveryAction(fault.detail);
  }
  Judgement judgement = JudgeXid(fault.code);
  if (fault.code >= 144 && fault.code <= 150 && HasWord(fault.detail, "Fatal")) {
    judgement.action = kDrainNow;
  }
  return judgement;
}

}  // namespace tide::health
