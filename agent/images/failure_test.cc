#include "agent/images/failure.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

const ImageReference kImage = *ParseImageReference("reg.example/train:1", "docker.io");

// As skopeo 1.9 and umoci 0.4 write them.
TEST_CASE("each failure is one line that says what is wrong, and whose fault it is") {
  struct Case {
    std::string errors;
    ImageFault fault;
    std::string says;
  };
  const std::string fatal = "time=\"2026-11-23T05:54:41Z\" level=fatal msg=";
  const std::vector<Case> cases = {
      {"Copying blob\n" + fatal +
           R"("writing blob: happened during read: Digest did not match, expected sha256:ae, got sha256:31")"
           "\n",
       ImageFault::kJob,
       "a layer is broken: it is not what its digest says (writing blob: happened during read: "
       "Digest did not match, expected sha256:ae, got sha256:31)"},
      {fatal +
           R"("initializing source docker://reg.example/train:1: pinging container registry reg.example: Get \"https://reg.example/v2/\": dial tcp 127.0.0.1:1: connect: connection refused")",
       ImageFault::kRegistry,
       "the registry does not answer (initializing source docker://reg.example/train:1: pinging "
       "container registry reg.example: Get \"https://reg.example/v2/\": dial tcp 127.0.0.1:1: "
       "connect: connection refused)"},
      {fatal + R"("dial tcp: lookup reg.example on 10.0.0.1:53: no such host")",
       ImageFault::kJob,
       "there is no such registry (dial tcp: lookup reg.example on 10.0.0.1:53: no such host)"},
      {fatal + R"("reading manifest 1 in reg.example/train: manifest unknown")",
       ImageFault::kJob,
       "the registry has no such tag or digest (reading manifest 1 in reg.example/train: manifest "
       "unknown)"},
      {fatal + R"("writing blob: write s/oci-put-blob2453: no space left on device")",
       ImageFault::kDisk,
       "the disk of this node's image store is full (writing blob: write s/oci-put-blob2453: no "
       "space left on device)"},
      {"   ⨯ create runtime bundle: unpack rootfs: unpack layer: read next entry: flate: corrupt "
       "input before offset 130\n",
       ImageFault::kJob,
       "a layer is broken (create runtime bundle: unpack rootfs: unpack layer: read next entry: "
       "flate: corrupt input before offset 130)"},
      {"something else\n", ImageFault::kJob, "something else"},
      {"", ImageFault::kJob, "it could not be fetched"},
      {std::string(100'000, 'x'), ImageFault::kJob, std::string(400, 'x')},
  };
  for (const Case& each : cases) {
    const ImageFailure failure = ExplainImageFailure(kImage, each.errors);
    CHECK(failure.fault == each.fault);
    CHECK(failure.message == "image reg.example/train:1: " + each.says);
  }
}

}  // namespace
}  // namespace tide::agent
