// An input that is a stream of bytes and the sizes of the pieces it arrives in.
// The first kHeaderBytes say how; they are printable in the corpus, so that it reads well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::fuzz {

class SplitInput {
 public:
  static constexpr std::size_t kHeaderBytes = 5;

  SplitInput(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool is_whole() const { return bytes_.size() >= kHeaderBytes; }
  bool flag(unsigned bit) const { return (byte_at(0) >> bit & 1) != 0; }
  std::string_view stream() const { return bytes_.substr(kHeaderBytes); }

  // Where the piece that starts at `at` ends; a step of one to 32 bytes, now and then a long one.
  std::size_t end_of_piece(std::size_t at, std::size_t index) const {
    const unsigned step = byte_at(1 + index % (kHeaderBytes - 1));
    const std::size_t size = step >= 0x7e ? 40 * (step & 31) + 1 : (step & 31) + 1;
    return std::min(at + size, stream().size());
  }

 private:
  unsigned byte_at(std::size_t index) const { return static_cast<unsigned char>(bytes_[index]); }

  std::string_view bytes_;
};

}  // namespace penstock::fuzz
