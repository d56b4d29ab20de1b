// How long one step takes, in whole ticks, and how long k decode steps in a row take.
//
//   ticks = max(0, L(n) + (c_x 2X >> shift) + c_k K + c_n N + c_c C)
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "options.hpp"

namespace planner::engine {

inline i64 floor_div(i64 a, i64 b) {  // b > 0
  const i64 quotient = a / b;
  return quotient - (a % b < 0);
}

// What one step computes, in the terms of the law.
struct Work {
  i64 tokens = 0;          // n
  i64 requests = 0;        // N
  i64 decode_context = 0;  // K
  i64 chunk_context = 0;   // C
  i64 attention2 = 0;      // 2X

  void add_decode(i64 before) {
    ++tokens;
    ++requests;
    decode_context += before + 1;
  }

  void add_chunk(i64 fresh, i64 before) {
    tokens += fresh;
    ++requests;
    chunk_context += before + fresh;
    attention2 += fresh * (2 * before + fresh);
  }
};

// Decode steps in a row: step i lasts first + i * slope ticks, first >= 1, slope >= 0.
class DecodeRun {
 public:
  DecodeRun() = default;
  DecodeRun(i64 first, i64 slope) : first_(first), slope_(slope) {}

  i64 duration(i64 i) const { return first_ + i * slope_; }

  // The most steps, up to `limit`, whose sums stay in 64 bits.
  i64 within_64_bits(i64 limit) const {
    return std::max<i64>(1, std::min(limit, (i64{1} << 61) / (first_ + limit * slope_ + 1)));
  }

  i64 ticks(i64 steps) const { return steps * first_ + slope_ * (steps * (steps - 1) / 2); }

  // Smallest s in [1, limit] with ticks(s) >= span; `limit` if there is none. The square root
  // only guesses; integers decide.
  i64 steps_to_cover(i64 span, i64 limit) const {
    if (span <= duration(0)) return 1;
    const double slope = static_cast<double>(slope_);
    const double linear = static_cast<double>(first_) - 0.5 * slope;
    const double twice = 2.0 * static_cast<double>(span);
    const double root = twice / (linear + std::sqrt(linear * linear + slope * twice));
    i64 guess = root < static_cast<double>(limit) ? static_cast<i64>(std::ceil(root)) : limit;
    guess = std::max<i64>(1, guess);
    while (guess > 1 && ticks(guess - 1) >= span) --guess;
    while (guess < limit && ticks(guess) < span) ++guess;
    return guess;
  }

 private:
  i64 first_ = 0, slope_ = 0;
};

class Law {
 public:
  i64 c_x = 0, c_k = 0, c_n = 0, c_c = 0;
  int shift = 0;

  // `knots`: pairs (n, L(n)), n ascending, at least one.
  void set_knots(const i64* knots, i64 count, i64 most_tokens) {
    knots_.assign(knots, knots + 2 * count);
    const i64 size = std::min(most_tokens, kTable) + 1;
    table_.resize(size);
    for (i64 n = 0; n < size; ++n) table_[n] = by_knots(n);
  }

  i64 tokens(i64 n) const {
    return n < static_cast<i64>(table_.size()) ? table_[n] : by_knots(n);
  }

  // May be negative where L is.
  i64 sum(const Work& it) const {
    return tokens(it.tokens) + ((c_x * it.attention2) >> shift) + c_k * it.decode_context +
           c_n * it.requests + c_c * it.chunk_context;
  }

  i64 ticks(const Work& it) const { return std::max<i64>(0, sum(it)); }

  // Whether more work never takes less time, and a decode alone takes what its sum says.
  bool only_adds() const {
    for (std::size_t i = 3; i < knots_.size(); i += 2)
      if (knots_[i] < knots_[i - 2]) return false;
    return c_x >= 0 && c_k >= 0 && c_n >= 0 && c_c >= 0 && tokens(1) + c_n + c_k >= 0;
  }

  // `steps` decodes in a row of one request alone, with `before` tokens computed; if only_adds().
  i64 decodes_alone(i64 before, i64 steps) const {
    return steps * (tokens(1) + c_n) + c_k * (steps * before + steps * (steps + 1) / 2);
  }

  // Ticks in which an empty engine prefills `tokens`, `budget` a step.
  i64 alone(i64 tokens, i64 budget) const {
    i64 total = 0;
    for (i64 before = 0; before < tokens; before += budget) {
      Work work;
      work.add_chunk(std::min(budget, tokens - before), before);
      total = later(total, ticks(work));
    }
    return total;
  }

 private:
  static constexpr i64 kTable = 1 << 16;

  // Linear between knots, the first and last pieces going on beyond them.
  i64 by_knots(i64 n) const {
    const i64 count = static_cast<i64>(knots_.size()) / 2;
    if (count == 1) return knots_[1];
    i64 right = 1;
    if (n >= knots_[2]) {  // first knot above n, at most the last
      i64 low = 1, high = count - 1;
      while (low < high) {
        const i64 middle = (low + high) / 2;
        if (knots_[2 * middle] > n) high = middle; else low = middle + 1;
      }
      right = low;
    }
    const i64 n0 = knots_[2 * right - 2], t0 = knots_[2 * right - 1];
    const i64 width = knots_[2 * right] - n0, rise = knots_[2 * right + 1] - t0;
    const i64 slope = floor_div(rise, width);  // apart, so that no product leaves 64 bits
    return t0 + slope * (n - n0) + floor_div((rise - slope * width) * (n - n0), width);
  }

  std::vector<i64> knots_, table_;
};

}  // namespace planner::engine
