#include "common/digest/sha256.h"

#include <catch2/catch.hpp>

#include "common/digest/hmac.h"

namespace tide {
namespace {

// FIPS 180-2, appendix B.
TEST_CASE("texts have the digests of the standard's examples") {
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("in pieces the digest is that of the whole") {
  Sha256 digest;
  digest.Add("a");
  digest.Add("");
  digest.Add("bc");
  CHECK(digest.TakeHex() == Sha256Hex("abc"));
}

// RFC 4231, test case 2.
TEST_CASE("an authentication code is that of the standard's example") {
  const HmacBytes code = HmacSha256("Jefe", "what do ya want for nothing?");
  CHECK(Hex(code.data(), code.size()) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace tide
