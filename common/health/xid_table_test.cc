#include "common/health/xid_table.h"

#include <catch2/catch.hpp>

namespace tide::health {
namespace {

FaultAction ActionOf(std::string_view line) {
  const auto fault = ParseKernelLine(line);
  REQUIRE(fault);
  return Judge(*fault).action;
}

}  // namespace

TEST_CASE("the table says what is done") {
  CHECK(JudgeXid(79).action == FaultAction::kDrainNow);
  CHECK(JudgeXid(63).action == FaultAction::kDrainAfter);
  CHECK(JudgeXid(94).action == FaultAction::kRestartJob);
  CHECK(JudgeXid(45).action == FaultAction::kNone);
  for (const int32_t code : {13, 31, 43}) {
    CHECK(JudgeXid(code).action == FaultAction::kCount);
  }
  for (const int32_t code : {44, 46, 48, 54, 57, 58, 61, 62, 64, 74, 95, 109, 119, 120, 140}) {
    CAPTURE(code);
    CHECK(JudgeXid(code).action == FaultAction::kDrainNow);
  }
}

TEST_CASE("every code of the catalogue is known, every other one is counted") {
  for (const int32_t code :
       {8,   13,  31,  32,  37,  38,  43,  44,  45,  46,  48,  54,  57,  58,  61,  62,
        63,  64,  66,  67,  68,  69,  73,  74,  78,  79,  80,  92,  93,  94,  95,  109,
        110, 119, 120, 121, 122, 123, 124, 125, 136, 137, 140, 141, 142, 143, 144, 145,
        146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161,
        162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176}) {
    CAPTURE(code);
    CHECK(JudgeXid(code).meaning != "unknown Xid");
    CHECK(!JudgeXid(code).meaning.empty());
  }
  for (const int32_t code : {-1, 0, 1, 14, 99, 177, 100'000}) {
    CHECK(JudgeXid(code) == Judgement{"unknown Xid", FaultAction::kCount});
  }
}

TEST_CASE("the driver's own words beat the table") {
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x0)") ==
        FaultAction::kCount);
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, RLW_CTRL  Fatal   XC1 i0 Link -1 (0x0)") ==
        FaultAction::kDrainNow);
  CHECK(ActionOf("NVRM: Xid (PCI:0008:01:00): 145, pid=1, name=Fatal, RLW Nonfatal XC1") ==
        FaultAction::kCount);
  const std::string changed = "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from ";
  CHECK(ActionOf(changed + "0x0 (None) to 0x4 (Drain and Reset)") == FaultAction::kDrainAfter);
  CHECK(ActionOf(changed + "0x0 (None) to 0x3 (Drain P2P)") == FaultAction::kDrainAfter);
  CHECK(ActionOf(changed + "0x0 (None) to 0x2 (Node Reboot)") == FaultAction::kDrainNow);
  CHECK(ActionOf(changed + "0x0 (None) to 0x1 (GPU Reset)") == FaultAction::kDrainNow);
  CHECK(ActionOf(changed + "0x1 (GPU Reset) to 0x0 (None)") == FaultAction::kNone);
  CHECK(ActionOf("NVRM: Xid (PCI:0009:01:00): 154, something else") == FaultAction::kCount);
}

TEST_CASE("a lost link drains its node when the job has left") {
  const auto fault = ParseKernelLine("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN");
  REQUIRE(fault);
  CHECK(Judge(*fault).action == FaultAction::kDrainAfter);
  CHECK(FaultKindName(fault->kind) == "link");
  CHECK(FaultActionName(FaultAction::kDrainAfter) == "drain_after");
}

}  // namespace tide::health
