#include "api/http/proxies.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/people/token_text.h"

namespace tide::api {
namespace {

// Returns an address as its bytes; none where it is no address.
std::vector<unsigned char> BytesOf(const std::string& address) {
  std::vector<unsigned char> bytes(sizeof(in6_addr));
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) {
    return bytes;
  }
  bytes.resize(sizeof(in_addr));
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    return bytes;
  }
  return {};
}

// Cuts the port off an address, as some proxies add it: "192.0.2.7:567", "[2001:db8::7]:567".
std::string WithoutPort(const std::string& element) {
  if (element.starts_with('[')) {
    return element.substr(1, element.find(']') - 1);
  }
  const size_t colon = element.find(':');
  return colon == element.rfind(':') ? element.substr(0, colon) : element;
}

// Takes the last element off a list; each proxy adds one at its end.
std::string TakeLast(std::string_view& list) {
  const size_t comma = list.rfind(',');
  std::string_view last = comma == std::string_view::npos ? list : list.substr(comma + 1);
  list = list.substr(0, comma == std::string_view::npos ? 0 : comma);
  last.remove_prefix(std::min(last.find_first_not_of(' '), last.size()));
  return std::string(last.substr(0, last.find_last_not_of(' ') + 1));
}

}  // namespace

Result<AddressRange> AddressRange::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  AddressRange range;
  range.network_ = BytesOf(text.substr(0, slash));
  const size_t most = range.network_.size() * 8;
  range.bits_ = most;
  bool whole = most > 0;
  if (slash != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + slash + 1, end, range.bits_);
    whole = whole && read.ec == std::errc() && read.ptr == end && range.bits_ <= most;
  }
  if (!whole) {
    return Fail(ErrorCode::kInvalidArgument,
                text +
                    " is no address or range of addresses, such as 10.0.0.7, 10.1.0.0/16 or "
                    "2001:db8::/32");
  }
  return range;
}

bool AddressRange::Holds(const std::string& address) const {
  const std::vector<unsigned char> bytes = BytesOf(address);
  if (bytes.size() != network_.size()) {
    return false;
  }
  for (size_t bit = 0; bit < bits_; ++bit) {
    const unsigned differs = bytes[bit / 8] ^ static_cast<unsigned>(network_[bit / 8]);
    if ((differs & (0x80U >> (bit % 8))) != 0) {
      return false;
    }
  }
  return true;
}

TrustedProxies::TrustedProxies(ProxyTrust trust)
    : trust_(std::move(trust)), secret_digest_(SecretDigest(trust_.secret)) {
  std::ranges::transform(trust_.user_header, trust_.user_header.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
}

bool TrustedProxies::SitsAt(const std::string& peer) const {
  return std::ranges::any_of(trust_.addresses,
                             [&peer](const AddressRange& range) { return range.Holds(peer); });
}

bool TrustedProxies::Trusts(const Head& head, const std::string& peer) const {
  return SitsAt(peer) &&
         (trust_.secret.empty() ||
          EqualInConstantTime(SecretDigest(head.Header(kProxySecretHeader)), secret_digest_));
}

std::string TrustedProxies::ClientOf(const Head& head, const std::string& peer) const {
  if (!Trusts(head, peer)) {
    return peer;
  }
  const std::string listed = head.Header("x-forwarded-for");
  std::string_view rest = listed;
  std::string client = peer;
  while (SitsAt(client)) {
    std::string before = WithoutPort(TakeLast(rest));
    if (BytesOf(before).empty()) {
      break;
    }
    client = std::move(before);
  }
  return client;
}

bool TrustedProxies::SaysHttps(const Head& head, const std::string& peer) const {
  const std::string listed = head.Header("x-forwarded-proto");
  std::string_view protocols = listed;
  return Trusts(head, peer) && TakeLast(protocols) == "https";
}

std::string TrustedProxies::UserOf(const Head& head, const std::string& peer) const {
  return !trust_.user_header.empty() && Trusts(head, peer) ? head.Header(trust_.user_header) : "";
}

bool TrustedProxies::IsUserForged(const Head& head, const std::string& peer) const {
  return head.headers.contains(trust_.user_header) && !Trusts(head, peer);
}

}  // namespace tide::api
