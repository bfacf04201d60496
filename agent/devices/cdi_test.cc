#include "agent/devices/cdi.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tide::agent {
namespace {

using Catch::Contains;

struct Folder {
  std::string path = "/tmp/tide-cdi-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
  }
};

// In the form in which nvidia-ctk writes it.
constexpr const char* kYaml = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              major: 195
              fileMode: 0640
              permissions: rw
              uid: 0
              gid: 0
    - name: "1"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia1
              hostPath: /dev/by-uuid/GPU-1
              type: c
        additionalGids: [44]
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
    deviceNodes:
        - path: /dev/nvidiactl
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, update-ldcache]
    mounts:
        - hostPath: /usr/lib/libcuda.so.1
          containerPath: /usr/lib/libcuda.so.1
          options: [ro, nosuid, nodev, rbind]
        - hostPath: /run/nvidia-persistenced/socket
          containerPath: /run/nvidia-persistenced/socket
          options: [nosuid]
)";

TEST_CASE("a device has its own edits, and once those of its file") {
  const Folder folder;
  folder.Write("nvidia.yaml", kYaml);
  folder.Write("notes.txt", "no CDI file");
  const Cdi cdi = Cdi::Read({"/no/such/folder", folder.path});
  CHECK(cdi.problems().empty());
  CHECK(cdi.MayHave("nvidia.com/gpu"));
  CHECK_FALSE(cdi.MayHave("amd.com/gpu"));
  const auto both = cdi.Resolve("nvidia.com/gpu", {"0", "1"});
  REQUIRE(both);
  CHECK(both->env == std::map<std::string, std::string>{{"NVIDIA_VISIBLE_DEVICES", "void"}});
  CHECK(both->nodes == std::vector<DeviceNode>{{"/dev/nvidiactl", "/dev/nvidiactl", "rwm", 0},
                                               {"/dev/nvidia0", "/dev/nvidia0", "rw", 0640},
                                               {"/dev/by-uuid/GPU-1", "/dev/nvidia1", "rwm", 0}});
  REQUIRE(both->mounts.size() == 2);
  CHECK(both->mounts[0] == MountConfig{"/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", true});
  CHECK_FALSE(both->mounts[1].read_only);
  CHECK(both->groups == std::vector<uint32_t>{44});
  CHECK(both->hooks == std::vector<HookConfig>{{.stage = "createContainer",
                                                .path = "/usr/bin/nvidia-cdi-hook",
                                                .args = {"nvidia-cdi-hook", "update-ldcache"},
                                                .env = {},
                                                .timeout_s = 0}});
  const auto first = cdi.Resolve("nvidia.com/gpu", {"0"});
  REQUIRE(first);
  CHECK(first->nodes.size() == 2);
  CHECK(first->groups.empty());
}

TEST_CASE("the last folder goes before the others, and JSON is read, too") {
  const Folder etc;
  const Folder run;
  etc.Write("a.yaml", kYaml);
  run.Write("b.json",
            R"({"cdiVersion": "1.1.0", "kind": "nvidia.com/gpu", "devices": [
                {"name": "0", "containerEdits": {"env": ["NEW=1"]}}]})");
  const Cdi cdi = Cdi::Read({etc.path, run.path});
  CHECK(cdi.problems().empty());
  CHECK(cdi.Resolve("nvidia.com/gpu", {"0"})->env.contains("NEW"));
  CHECK_FALSE(cdi.Resolve("nvidia.com/gpu", {"1"})->env.contains("NEW"));  // only the other has it
}

TEST_CASE("a device that is not there is named, with those that are") {
  const Folder folder;
  folder.Write("nvidia.yaml", kYaml);
  folder.Write("broken.json", "{");
  const Cdi cdi = Cdi::Read({folder.path});
  const auto none = cdi.Resolve("nvidia.com/gpu", {"0", "7"});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(none.error().message,
             Contains("nvidia.com/gpu=7") && Contains("there are 0, 1") && Contains("broken.json"));
  CHECK_THAT(cdi.Resolve("amd.com/gpu", {"0"}).error().message, Contains("none of that kind"));
}

TEST_CASE("a file that is not understood is left out, and says where") {
  const auto problem = [](const std::string& text) {
    const Folder folder;
    folder.Write("x.yaml", text);
    const Cdi cdi = Cdi::Read({folder.path});
    CHECK_FALSE(cdi.Resolve("v.com/c", {"a"}));
    return cdi.problems().size() == 1 ? cdi.problems()[0] : "none";
  };
  const std::string head = "cdiVersion: 0.6.0\nkind: v.com/c\n";
  const auto edits = [&](const std::string& text) {
    return problem(head + "devices: [{name: a, containerEdits: " + text + "}]\n");
  };
  CHECK_THAT(problem(""), Contains("x.yaml"));
  CHECK_THAT(problem("kind: v.com/c\n"), Contains("cdiVersion is missing"));
  CHECK_THAT(problem("cdiVersion: 2.0.0\nkind: v.com/c\n"), Contains("2.0.0 is not known"));
  CHECK_THAT(problem("cdiVersion: 0.6.0\nkind: gpu\n"), Contains("VENDOR/CLASS"));
  CHECK_THAT(problem(head + "device: []\n"),
             Contains("line 3") && Contains("device in a CDI file"));
  CHECK_THAT(problem(head + "devices: [{name: a}, {name: a}]\n"), Contains("of another one"));
  CHECK_THAT(problem(head + "devices: 3\n"), Contains("a list is expected"));
  CHECK_THAT(edits("{intelRdt: {}}"), Contains("intelRdt in containerEdits is not known"));
  CHECK_THAT(edits("{env: [A]}"), Contains("KEY=VALUE"));
  CHECK_THAT(edits("{deviceNodes: [{path: dev/x}]}"), Contains("no absolute path"));
  CHECK_THAT(edits("{deviceNodes: [{path: /dev/x, permissions: all}]}"), Contains("permissions"));
  CHECK_THAT(edits("{deviceNodes: [{path: /dev/x, fileMode: rw}]}"), Contains("a number"));
  CHECK_THAT(edits("{deviceNodes: [{path: /dev/x, fileMode: 0888}]}"), Contains("a number"));
  CHECK_THAT(edits("{deviceNodes: [{path: /dev/x, fileMode: 4096}]}"), Contains("twelve bits"));
  CHECK_THAT(edits("{mounts: [{hostPath: /a}]}"), Contains("containerPath"));
  CHECK_THAT(edits("{mounts: [{hostPath: /a, containerPath: /b, type: tmpfs}]}"),
             Contains("type tmpfs"));
}

TEST_CASE("a broken file stands in the way of its own kind, and of one that it may be of") {
  const std::string edits = "devices: [{name: a, containerEdits: {netDevices: []}}]\n";
  const Folder folder;
  folder.Write("nvidia.yaml", kYaml);
  folder.Write("other.yaml", "cdiVersion: 1.1.0\n" + edits + "kind: v.com/nic\n");
  Cdi cdi = Cdi::Read({folder.path});
  CHECK(cdi.problems().size() == 1);
  CHECK(cdi.MayHave("v.com/nic"));
  CHECK_FALSE(cdi.MayHave("amd.com/gpu"));
  CHECK(cdi.Resolve("nvidia.com/gpu", {"0"}));
  CHECK_THAT(cdi.Resolve("v.com/nic", {"a"}).error().message, Contains("netDevices"));

  // It may be newer than the other one of its kind.
  folder.Write("newer.yaml", "cdiVersion: 1.1.0\nkind: nvidia.com/gpu\n" + edits);
  cdi = Cdi::Read({folder.path});
  CHECK_THAT(cdi.Resolve("nvidia.com/gpu", {"0"}).error().message, Contains("newer.yaml"));

  folder.Write("third.json", "{");
  CHECK(Cdi::Read({folder.path}).MayHave("amd.com/gpu"));
}

}  // namespace
}  // namespace tide::agent
