#include "api/testing/raw_client.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "common/base/check.h"

namespace tide::api::testing {
namespace {

// Longer than any machine needs; a test that waits this long has failed.
constexpr timeval kReadTime = {20, 0};

}  // namespace

RawClient::RawClient(int port, int receive_buffer)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) {
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kReadTime, sizeof kReadTime);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  TIDE_CHECK(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
             "the server listens");
}

void RawClient::Send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (put <= 0) {
      return;
    }
    text.remove_prefix(static_cast<size_t>(put));
  }
}

bool RawClient::ReadMore() {
  std::array<char, 65536> piece{};
  const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), 0);
  read_.append(piece.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return got > 0;
}

std::string RawClient::ReadUntil(std::string_view end) {
  size_t at = read_.find(end);
  while (at == std::string::npos && ReadMore()) {
    at = read_.find(end);
  }
  std::string text = read_.substr(0, at == std::string::npos ? at : at + end.size());
  read_.erase(0, text.size());
  return text;
}

std::string RawClient::ReadAll() {
  while (ReadMore()) {
  }
  return std::exchange(read_, {});
}

std::string RawClient::ReadAnswer() {
  std::string answer = ReadUntil("\r\n\r\n");
  constexpr std::string_view kLength = "Content-Length: ";
  const size_t at = answer.find(kLength);
  const size_t length =
      at == std::string::npos ? 0 : std::stoul(answer.substr(at + kLength.size()));
  while (read_.size() < length && ReadMore()) {
  }
  answer += read_.substr(0, length);
  read_.erase(0, length);
  return answer;
}

}  // namespace tide::api::testing
