// Hash slots, against known values and a bit-by-bit reference.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/hash_slot.h"

#include <random>
#include <string>

#include "catch.h"
#include "exact_buffer.h"

namespace penstock::cluster {
namespace {

std::uint16_t reference_crc16(std::string_view bytes) {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return static_cast<std::uint16_t>(crc);
}

}  // namespace

TEST_CASE("the specification's check value") { CHECK(crc16("123456789") == 0x31C3); }

TEST_CASE("any length and alignment gives the reference's value") {
  std::minstd_rand random(7);
  for (std::size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const ExactBuffer exact(bytes);
    REQUIRE(crc16(exact.view()) == reference_crc16(bytes));
  }
}

TEST_CASE("R-01: hash-tag corner keys go to the slots a real node gives them") {
  const std::pair<std::string, int> known[] = {
      {"{}", 15257}, {"{}{a}", 13650}, {"{}a", 10875}, {"a{}b", 13694}, {"{a}{b}", 15495},
      {"{", 4092}, {"}{a", 12925}, {"a}{b}", 3300}, {"{{a}", 10276}, {"foo{{bar}}zap", 4015},
      {"foo{bar}{zap}", 5061}, {"", 0}, {std::string("a\0b", 3), 8383}, {"a\r\nb", 3608},
      {"{t1}", 8943}, {"{t2}", 4748}, {"{t3}", 685}, {"{t0}", 13006}};
  for (const auto& [key, slot] : known) CHECK(hash_slot(key) == slot);
}

}  // namespace penstock::cluster
