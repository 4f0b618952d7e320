// Bytes in a heap block of exactly their size, so that a sanitizer sees a read of one byte too
// many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <string_view>

namespace penstock {

class ExactBuffer {
 public:
  explicit ExactBuffer(std::string_view bytes)
      : size_(bytes.size()), bytes_(new char[bytes.size()]) {
    std::memcpy(bytes_.get(), bytes.data(), bytes.size());
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<char[]> bytes_;
};

}  // namespace penstock
