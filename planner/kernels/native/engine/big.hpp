// Whole numbers >= 0 of any length: what the fair link's clock needs, and no more.
#pragma once

#include <algorithm>
#include <vector>

#include "options.hpp"

namespace planner::engine {

class Big {
 public:
  using Word = std::uint32_t;

  Big() = default;
  explicit Big(u64 value) {
    for (; value; value >>= 32) words_.push_back(static_cast<Word>(value));
  }

  void multiply(Word factor) {
    u64 carry = 0;
    for (Word& word : words_) {
      carry += u64{word} * factor;
      word = static_cast<Word>(carry);
      carry >>= 32;
    }
    if (carry) words_.push_back(static_cast<Word>(carry));
    trim();
  }

  Word remainder(Word divisor) const {
    u64 rest = 0;
    for (std::size_t i = words_.size(); i-- > 0;) rest = ((rest << 32) | words_[i]) % divisor;
    return static_cast<Word>(rest);
  }

  void divide(Word divisor) {
    u64 rest = 0;
    for (std::size_t i = words_.size(); i-- > 0;) {
      rest = (rest << 32) | words_[i];
      words_[i] = static_cast<Word>(rest / divisor);
      rest %= divisor;
    }
    trim();
  }

  friend Big operator+(const Big& a, const Big& b) {
    Big sum;
    u64 carry = 0;
    for (std::size_t i = 0; i < std::max(a.words_.size(), b.words_.size()); ++i) {
      carry += u64{a.at(i)} + b.at(i);
      sum.words_.push_back(static_cast<Word>(carry));
      carry >>= 32;
    }
    if (carry) sum.words_.push_back(static_cast<Word>(carry));
    return sum;
  }

  friend Big operator-(const Big& a, const Big& b) {  // a >= b
    Big rest;
    u64 borrow = 0;
    for (std::size_t i = 0; i < a.words_.size(); ++i) {
      const u64 take = u64{b.at(i)} + borrow;
      borrow = a.words_[i] < take;
      rest.words_.push_back(static_cast<Word>(a.words_[i] - take));
    }
    rest.trim();
    return rest;
  }

  friend bool operator<(const Big& a, const Big& b) {
    if (a.words_.size() != b.words_.size()) return a.words_.size() < b.words_.size();
    for (std::size_t i = a.words_.size(); i-- > 0;)
      if (a.words_[i] != b.words_[i]) return a.words_[i] < b.words_[i];
    return false;
  }

  static Big product(const Big& a, i64 factor) {  // factor >= 0
    Big low = a, high = a;
    low.multiply(static_cast<Word>(factor));
    high.multiply(static_cast<Word>(static_cast<u64>(factor) >> 32));
    if (!high.words_.empty()) high.words_.insert(high.words_.begin(), 0);
    return low + high;
  }

  // ceil(a / b), which must be below 2**62.
  static i64 quotient_up(const Big& a, const Big& b) {
    i64 low = 0, high = kNever;  // b * high >= a
    while (low < high) {
      const i64 middle = low + (high - low) / 2;
      if (product(b, middle) < a) low = middle + 1; else high = middle;
    }
    return low;
  }

 private:
  Word at(std::size_t i) const { return i < words_.size() ? words_[i] : 0; }
  void trim() {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
  }

  std::vector<Word> words_;
};

}  // namespace planner::engine
