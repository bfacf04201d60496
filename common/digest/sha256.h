#pragma once
// SHA-256, by OpenSSL.

#include <cstddef>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace tide {

// 64 lower-case digits.
[[nodiscard]] std::string Sha256Hex(std::string_view text);

// Of a text that comes in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Add(std::string_view piece);
  // Once, after the last piece.
  [[nodiscard]] std::string TakeHex();

 private:
  evp_md_ctx_st* context_;
};

// Two lower-case digits a byte.
[[nodiscard]] std::string Hex(const unsigned char* data, size_t size);

}  // namespace tide
