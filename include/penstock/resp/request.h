// A request: one whole frame as a RESP array of bulk strings, and where its arguments lie in it.
// A view: the bytes belong to a read buffer or a scanner and outlive only the current call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::resp {

// One argument, in bytes from the first byte of its frame. Frames are under 4 GiB.
struct Argument {
  std::uint32_t offset;
  std::uint32_t length;
};

class Request {
 public:
  Request() = default;
  Request(std::string_view frame, std::span<const Argument> arguments)
      : frame_(frame), arguments_(arguments) {}

  std::string_view frame() const { return frame_; }
  std::size_t size() const { return arguments_.size(); }
  bool empty() const { return arguments_.empty(); }
  std::string_view operator[](std::size_t index) const {
    const Argument a = arguments_[index];
    return {frame_.data() + a.offset, a.length};
  }

 private:
  std::string_view frame_;
  std::span<const Argument> arguments_;
};

}  // namespace penstock::resp
