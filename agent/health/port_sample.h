#pragma once
// One reading of a node's network ports as the kernel shows them in sysfs.
//
// Functions without state. Reading may hang with the driver: the caller does it where it can be
// killed.
//
// Invariants:
//   S1 what a file does not hold, or holds in another form, is not known: never 0, never an error.
//   S2 one port is one sample with one device. That is the PCI address with its function, as lines
//      of the kernel log about links are reported, and behind it "/2" for a further port of the
//      same function; the port's name where there is no PCI address.
//   S3 at most kPortsMax samples, sorted by device; of a file at most kPortFileBytesMax are taken.
//   S4 counters are read before states. Of a cut that begins in between, the sample shows the state
//      and the next one the counter, which is one cut; the other order would show two.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tide::health {

constexpr size_t kPortsMax = 128;
constexpr size_t kPortFileBytesMax = 4096;
constexpr size_t kPortWordMax = 64;
constexpr uint64_t kPortRateMbpsMax = 100'000'000;

enum class PortState : uint8_t {
  kDown,
  kInit,   // the link is there, the subnet manager has not been
  kArmed,  // a step before active
  kActive,
};

enum class LinkLayer : uint8_t {
  kInfiniBand,
  kEthernet,
};

enum class PortCounter : uint8_t {
  kLinkDowned,
  kCarrierChanges,  // two for a cut: of an Ethernet port, or of the net device of a RoCE port
  kSymbolError,
  kLinkErrorRecovery,
  kRcvErrors,
  kLocalLinkIntegrity,
  kBufferOverrun,
  kXmitDiscards,
  kLocalAckTimeout,
  kRnrNakRetry,
  kRoceSlowRestart,
};

// Files of counters in the folder of an InfiniBand port, in the order of PortCounter. That of
// carrier changes lies in the folder of a net device.
inline constexpr auto kPortCounterFiles = std::to_array<std::string_view>({
    "counters/link_downed",
    "carrier_changes",
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/port_rcv_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_xmit_discards",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/roce_slow_restart",
});
inline constexpr size_t kPortCounters = kPortCounterFiles.size();

// "link_downed": the last part of the file's name.
[[nodiscard]] std::string_view PortCounterName(PortCounter counter);

struct PortSample {
  std::string name;    // "mlx5_0/1", or "eth0" for a port that only net devices show
  std::string device;  // see S2
  std::string model;   // of the adapter: "MT_0000000838", "0x8086:0x1592"; "" = not known
  bool rdma = false;   // listed as InfiniBand device, which RoCE adapters are, too
  std::optional<LinkLayer> link_layer;
  std::optional<PortState> state;
  std::string phys_state;  // "LinkUp", "Polling"; operstate of a net device; "" = unknown
  std::optional<uint64_t> rate_mbps;  // also of a port that is down, where it means nothing
  std::optional<uint32_t> lanes;      // 4 for "4X"
  std::array<std::optional<uint64_t>, kPortCounters> counters;

  [[nodiscard]] std::optional<uint64_t>& at(PortCounter counter) {
    return counters[std::to_underlying(counter)];
  }
  [[nodiscard]] const std::optional<uint64_t>& at(PortCounter counter) const {
    return counters[std::to_underlying(counter)];
  }
  bool operator==(const PortSample&) const = default;
};

struct PortRate {
  uint64_t mbps = 0;
  std::optional<uint32_t> lanes;
  bool operator==(const PortRate&) const = default;
};

// "400 Gb/sec (4X NDR)", "2.5 Gb/sec"; nothing for anything else, and for more than
// kPortRateMbpsMax.
[[nodiscard]] std::optional<PortRate> ParsePortRate(std::string_view text);

// "4: ACTIVE"; nothing for a state that is not in PortState.
[[nodiscard]] std::optional<PortState> ParsePortState(std::string_view text);

// Reports whether the text can name a port: 1 to kPortWordMax printable ASCII characters, no blank.
[[nodiscard]] bool IsPortWord(std::string_view text);

// Reads the ports of InfiniBand and RoCE adapters, and those of other Ethernet adapters. Leaves out
// virtual functions, which come and go with containers, and further net devices of one adapter.
//   sysfs_root: "/sys", or a folder of a test.
//   Cost: about 15 small files for each port.
[[nodiscard]] std::vector<PortSample> ReadPorts(const std::string& sysfs_root);

}  // namespace tide::health
