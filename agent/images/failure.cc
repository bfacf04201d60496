#include "agent/images/failure.h"

#include <algorithm>
#include <array>

namespace tide::agent {
namespace {

constexpr size_t kMessageMax = 400;

struct Sign {
  std::string_view text;
  ImageFault fault;
  std::string_view means;  // empty: what the program says is clear enough
};

// The first that occurs counts.
constexpr std::array<Sign, 23> kSigns = {{
    {"no space left on device", ImageFault::kDisk, "the disk of this node's image store is full"},
    {"No space left on device", ImageFault::kDisk, "the disk of this node's image store is full"},
    {"disk quota exceeded", ImageFault::kDisk, "the disk of this node's image store is full"},
    {"Digest did not match", ImageFault::kJob, "a layer is broken: it is not what its digest says"},
    {"flate: corrupt input", ImageFault::kJob, "a layer is broken"},
    {"gzip: invalid", ImageFault::kJob, "a layer is broken"},
    {"unexpected EOF", ImageFault::kRegistry, ""},
    {"manifest unknown", ImageFault::kJob, "the registry has no such tag or digest"},
    {"name unknown", ImageFault::kJob, "the registry has no such image"},
    {"unauthorized",
     ImageFault::kJob,
     "the registry wants a login; see --image-auth of tide-agent"},
    {"access to the resource is denied",
     ImageFault::kJob,
     "the registry has no such image, or wants a login; see --image-auth of tide-agent"},
    {"x509:", ImageFault::kJob, "the registry's certificate is not trusted on this node"},
    {"server gave HTTP response to HTTPS client",
     ImageFault::kJob,
     "the registry speaks plain HTTP; see --image-plain-http of tide-agent"},
    {"does not look like a TLS handshake",
     ImageFault::kJob,
     "the registry speaks plain HTTP; see --image-plain-http of tide-agent"},
    {"no such host", ImageFault::kJob, "there is no such registry"},
    {"connection refused", ImageFault::kRegistry, "the registry does not answer"},
    {"connection reset", ImageFault::kRegistry, "the registry does not answer"},
    {"no route to host", ImageFault::kRegistry, "the registry cannot be reached"},
    {"network is unreachable", ImageFault::kRegistry, "the registry cannot be reached"},
    {"timeout", ImageFault::kRegistry, "the registry does not answer"},
    {"deadline exceeded", ImageFault::kRegistry, "the registry does not answer"},
    {"toomanyrequests", ImageFault::kRegistry, "the registry has had too many requests"},
    {"unexpected HTTP status: 5", ImageFault::kRegistry, "the registry has a fault of its own"},
}};

// skopeo: `time="…" level=fatal msg="…"`; umoci: `   ⨯ …`. Else the last line.
std::string LastMessage(std::string_view errors) {
  while (!errors.empty() && (errors.back() == '\n' || errors.back() == ' ')) {
    errors.remove_suffix(1);
  }
  std::string_view line = errors.substr(errors.rfind('\n') + 1);
  constexpr std::string_view kField = "msg=\"";
  if (const size_t field = line.find(kField); field != std::string_view::npos) {
    line = line.substr(field + kField.size());
    line = line.ends_with('"') ? line.substr(0, line.size() - 1) : line;
  } else if (const size_t cross = line.find("⨯ "); cross != std::string_view::npos) {
    line = line.substr(cross + std::string_view("⨯ ").size());
  }
  std::string message;
  for (size_t i = 0; i < line.size() && message.size() < kMessageMax; ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    const char c = line[escape ? ++i : i];
    message += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return message;
}

}  // namespace

ImageFailure ExplainImageFailure(const ImageReference& image, std::string_view errors) {
  const auto* const sign = std::ranges::find_if(
      kSigns, [&](const Sign& each) { return errors.find(each.text) != std::string_view::npos; });
  const bool known = sign != kSigns.end();
  const std::string said = LastMessage(errors);
  ImageFailure failure;
  failure.fault = known ? sign->fault : ImageFault::kJob;
  failure.message = "image " + image.Text() + ": ";
  if (known && !sign->means.empty()) {
    failure.message += std::string(sign->means) + (said.empty() ? "" : " (" + said + ")");
  } else {
    failure.message += said.empty() ? "it could not be fetched" : said;
  }
  return failure;
}

}  // namespace tide::agent
