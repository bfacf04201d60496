#include "common/digest/sha256.h"

#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace tide
