// Whole numbers >= 0 of any length: what the fair link's clock needs, and no more.
//
// Below 2**63 a number is a word, and nothing is allocated.
#pragma once

#include <algorithm>
#include <vector>

#include "options.hpp"

namespace planner::engine {

class Big {
 public:
  using Digit = std::uint32_t;

  Big() = default;
  explicit Big(u64 value) : small_(value) {}

  void multiply(Digit factor) {
    if (digits_.empty()) {
      if (small_ <= kSmall / std::max<Digit>(1, factor)) {
        small_ *= factor;
        return;
      }
      widen();
    }
    u64 carry = 0;
    for (Digit& digit : digits_) {
      carry += u64{digit} * factor;
      digit = static_cast<Digit>(carry);
      carry >>= 32;
    }
    if (carry) digits_.push_back(static_cast<Digit>(carry));
    narrow();
  }

  Digit remainder(Digit divisor) const {
    if (digits_.empty()) return static_cast<Digit>(small_ % divisor);
    u64 rest = 0;
    for (std::size_t i = digits_.size(); i-- > 0;) rest = ((rest << 32) | digits_[i]) % divisor;
    return static_cast<Digit>(rest);
  }

  void divide(Digit divisor) {
    if (digits_.empty()) {
      small_ /= divisor;
      return;
    }
    u64 rest = 0;
    for (std::size_t i = digits_.size(); i-- > 0;) {
      rest = (rest << 32) | digits_[i];
      digits_[i] = static_cast<Digit>(rest / divisor);
      rest %= divisor;
    }
    narrow();
  }

  friend Big operator+(const Big& a, const Big& b) {
    if (both_small(a, b) && a.small_ + b.small_ <= kSmall) return Big(a.small_ + b.small_);
    Big sum;
    u64 carry = 0;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      carry += u64{a.at(i)} + b.at(i);
      sum.digits_.push_back(static_cast<Digit>(carry));
      carry >>= 32;
    }
    if (carry) sum.digits_.push_back(static_cast<Digit>(carry));
    sum.narrow();
    return sum;
  }

  friend Big operator-(const Big& a, const Big& b) {  // a >= b
    if (both_small(a, b)) return Big(a.small_ - b.small_);
    Big rest;
    u64 borrow = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const u64 take = u64{b.at(i)} + borrow;
      borrow = a.at(i) < take;
      rest.digits_.push_back(static_cast<Digit>(a.at(i) - take));
    }
    rest.narrow();
    return rest;
  }

  friend bool operator<(const Big& a, const Big& b) {
    if (both_small(a, b)) return a.small_ < b.small_;
    if (a.digits_.size() != b.digits_.size()) return a.digits_.size() < b.digits_.size();
    for (std::size_t i = a.digits_.size(); i-- > 0;)
      if (a.digits_[i] != b.digits_[i]) return a.digits_[i] < b.digits_[i];
    return false;
  }

  static Big product(const Big& a, i64 factor) {  // factor >= 0
    const u64 times = static_cast<u64>(factor);
    if (a.digits_.empty() && (times == 0 || a.small_ <= kSmall / times))
      return Big(a.small_ * times);
    Big low = a, high = a;
    low.multiply(static_cast<Digit>(times));
    high.multiply(static_cast<Digit>(times >> 32));
    if (high.digits_.empty()) high.widen();
    high.digits_.insert(high.digits_.begin(), 0);
    high.narrow();
    return low + high;
  }

  // ceil(a / b), which must be below 2**62.
  static i64 quotient_up(const Big& a, const Big& b) {
    if (both_small(a, b))
      return static_cast<i64>(a.small_ / b.small_ + (a.small_ % b.small_ != 0));
    i64 low = 0, high = kNever;  // b * high >= a
    while (low < high) {
      const i64 middle = low + (high - low) / 2;
      if (product(b, middle) < a) low = middle + 1; else high = middle;
    }
    return low;
  }

 private:
  static constexpr u64 kSmall = (u64{1} << 63) - 1;

  static bool both_small(const Big& a, const Big& b) {
    return a.digits_.empty() && b.digits_.empty();
  }

  std::size_t size() const { return digits_.empty() ? 2 : digits_.size(); }

  Digit at(std::size_t i) const {
    if (digits_.empty()) return i < 2 ? static_cast<Digit>(small_ >> (32 * i)) : 0;
    return i < digits_.size() ? digits_[i] : 0;
  }

  void widen() {
    digits_ = {static_cast<Digit>(small_), static_cast<Digit>(small_ >> 32)};
  }

  void narrow() {
    while (!digits_.empty() && digits_.back() == 0) digits_.pop_back();
    if (digits_.size() > 2) return;
    const u64 value = (digits_.size() > 1 ? u64{digits_[1]} << 32 : 0) |
                      (digits_.empty() ? 0 : digits_[0]);
    if (value > kSmall) return;
    small_ = value;
    digits_.clear();
  }

  u64 small_ = 0;
  std::vector<Digit> digits_;  // lowest first, the last not 0; empty below 2**63
};

}  // namespace planner::engine
