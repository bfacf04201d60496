#include "agent/init/messages.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tide::agent {
namespace {

using Json = nlohmann::json;

bool Send(int fd, const std::string& text) {
  while (true) {
    if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) >= 0) {
      return true;
    }
    if (errno != EINTR) {
      return false;
    }
  }
}

}  // namespace

bool SendReport(int fd, const InitReport& report) {
  const Json json = {{"kind", static_cast<int>(report.kind)},
                     {"index", report.index},
                     {"code", report.code},
                     {"signal", report.signal},
                     {"core", report.core},
                     {"text", report.text.substr(0, kMaxMessage / 8)}};
  return Send(fd, json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool SendOrder(int fd, const InitOrder& order) {
  const Json json = {{"kind", static_cast<int>(order.kind)}, {"value", order.value}};
  return Send(fd, json.dump());
}

std::optional<InitReport> ParseReport(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  try {
    InitReport report;
    report.kind = static_cast<InitReport::Kind>(json.at("kind").get<int>());
    json.at("index").get_to(report.index);
    json.at("code").get_to(report.code);
    json.at("signal").get_to(report.signal);
    json.at("core").get_to(report.core);
    json.at("text").get_to(report.text);
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::optional<InitOrder> ParseOrder(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  try {
    return InitOrder{.kind = static_cast<InitOrder::Kind>(json.at("kind").get<int>()),
                     .value = json.at("value").get<int64_t>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Packet ReceivePacket(int fd) {
  std::array<char, kMaxMessage> data{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec part{.iov_base = data.data(), .iov_len = data.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && errno == ECONNRESET) {
    // The other end closed with messages of ours unread. What it sent before is still to come.
    size = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {};
  }
  Packet packet;
  if (size <= 0) {
    packet.state = Packet::State::kClosed;
    return packet;
  }
  packet.state = Packet::State::kMessage;
  packet.text.assign(data.data(), static_cast<size_t>(size));
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials{};
      std::memcpy(&credentials, CMSG_DATA(item), sizeof(credentials));
      packet.sender = credentials.pid;
    }
  }
  return packet;
}

}  // namespace tide::agent
