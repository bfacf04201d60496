#include "agent/runtime/port_guard.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <string>

#include "agent/runtime/cgroup.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr std::array kBinds = {BPF_CGROUP_INET4_BIND, BPF_CGROUP_INET6_BIND};
constexpr size_t kLength = 10;

bpf_insn Step(int code, uint8_t target, uint8_t source, int16_t offset, int32_t value) {
  bpf_insn step{};
  step.code = static_cast<uint8_t>(code);
  step.dst_reg = target & 0xFU;
  step.src_reg = source & 0xFU;
  step.off = offset;
  step.imm = value;
  return step;
}

// `jump` compares register 2 or 3, and goes to the last step.
bpf_insn LeaveIf(int jump, uint8_t target, int32_t value, size_t at) {
  const auto distance = static_cast<int16_t>(kLength - 2 - at);
  return Step(BPF_JMP | jump | BPF_K, target, 0, distance, value);
}

// Returns 1 (granted) in register 0, or 0. Register 1 points to a bpf_sock_addr.
std::array<bpf_insn, kLength> Program(const KeptPorts& ports) {
  constexpr int kLoad = BPF_LDX | BPF_MEM | BPF_W;
  constexpr int kSet = BPF_ALU64 | BPF_MOV | BPF_K;
  return {Step(kLoad, BPF_REG_2, BPF_REG_1, offsetof(bpf_sock_addr, user_port), 0),
          Step(BPF_ALU | BPF_END | BPF_TO_BE, BPF_REG_2, 0, 0, 16),
          Step(kLoad, BPF_REG_3, BPF_REG_1, offsetof(bpf_sock_addr, type), 0),
          Step(kSet, BPF_REG_0, 0, 0, 1),
          LeaveIf(BPF_JNE, BPF_REG_3, SOCK_STREAM, 4),
          LeaveIf(BPF_JLT, BPF_REG_2, static_cast<int32_t>(ports.low), 5),
          LeaveIf(BPF_JGT, BPF_REG_2, static_cast<int32_t>(ports.high), 6),
          LeaveIf(BPF_JEQ, BPF_REG_2, static_cast<int32_t>(ports.own), 7),
          Step(kSet, BPF_REG_0, 0, 0, 0),
          Step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
}

long Bpf(bpf_cmd command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

Result<Fd> Load(const KeptPorts& ports, bpf_attach_type bind) {
  const auto program = Program(ports);
  constexpr const char* kLicense = "Apache-2.0";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
  attributes.expected_attach_type = bind;
  attributes.insns = std::bit_cast<uint64_t>(program.data());
  attributes.insn_cnt = kLength;
  attributes.license = std::bit_cast<uint64_t>(kLicense);
  Fd fd(static_cast<int>(Bpf(BPF_PROG_LOAD, attributes)));
  if (!fd.valid()) {
    return FailErrno("cannot load a BPF program that keeps ports", errno);
  }
  return fd;
}

}  // namespace

namespace {

// Tries whether the kernel keeps a port: some attach the program and do not ask it (sockets that
// net_prio of version 1 has marked, before Linux 5.15).
Status TryIn(const std::string& folder) {
  constexpr uint16_t kPort = 65'535;  // needs no privilege
  TIDE_TRY(GuardPorts(folder, {kPort, kPort, 0}));
  const Fd members(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::write(members.get(), "0", 1) != 1) {
      ::_exit(errno);
    }
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* place = reinterpret_cast<const sockaddr*>(&address);  // NOLINT: as bind(2) has it
    const bool refused = ::bind(fd, place, sizeof address) != 0 && errno == EPERM;
    ::_exit(refused ? 0 : ENOSYS);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    return FailErrno("cannot try whether ports are kept", errno);
  }
  if (status != 0) {
    const bool disobeyed = WIFEXITED(status) && WEXITSTATUS(status) == ENOSYS;
    return Fail(ErrorCode::kUnavailable,
                disobeyed ? "the kernel does not keep a port that it was told to keep"
                          : "a process cannot enter " + folder);
  }
  return {};
}

}  // namespace

Status CanGuardPorts() {
  const std::string folder = UnifiedCgroup("/tide-tries-ports-" + std::to_string(::getpid()));
  if (folder.empty()) {
    return Fail(ErrorCode::kUnavailable, "cgroups of version 2 are not mounted");
  }
  TIDE_TRY(MakeDirs(folder, 0755));
  const Status tried = TryIn(folder);
  ::rmdir(folder.c_str());
  return tried;
}

Status GuardPorts(const std::string& cgroup_folder, const KeptPorts& ports) {
  const Fd cgroup(::open(cgroup_folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!cgroup.valid()) {
    return FailErrno("cannot open " + cgroup_folder, errno);
  }
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_MEMLOCK, &unlimited);  // before Linux 5.11 programs count there
  for (const bpf_attach_type bind : kBinds) {
    TIDE_ASSIGN(const Fd program, Load(ports, bind));
    bpf_attr attributes{};
    attributes.target_fd = static_cast<uint32_t>(cgroup.get());
    attributes.attach_bpf_fd = static_cast<uint32_t>(program.get());
    attributes.attach_type = bind;
    attributes.attach_flags = BPF_F_ALLOW_MULTI;
    if (Bpf(BPF_PROG_ATTACH, attributes) != 0) {
      return FailErrno("cannot keep ports from the processes of " + cgroup_folder, errno);
    }
  }
  return {};
}

}  // namespace tide::agent
