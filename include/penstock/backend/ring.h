// A growing ring of plain values: push at the back, pop at the front, no allocation once warm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace penstock::backend {

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return items_[(head_ + index) & (capacity_ - 1)]; }
  T& front() { return items_[head_]; }
  const T& front() const { return items_[head_]; }

  // A new item at the back, to be filled.
  [[gnu::always_inline]] T& emplace_back() {
    if (size_ == capacity_) [[unlikely]] grow();
    return items_[(head_ + size_++) & (capacity_ - 1)];
  }
  void pop_front() {
    head_ = (head_ + 1) & (capacity_ - 1);
    --size_;
  }
  void clear() { head_ = size_ = 0; }

 private:
  void grow() {
    const std::size_t capacity = capacity_ == 0 ? 16 : 2 * capacity_;
    std::unique_ptr<T[]> items(new T[capacity]);
    for (std::size_t i = 0; i < size_; ++i) items[i] = (*this)[i];
    items_ = std::move(items);
    capacity_ = capacity;
    head_ = 0;
  }

  std::unique_ptr<T[]> items_;
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace penstock::backend
