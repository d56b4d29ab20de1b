// When decoding sequences will finish, by the number of decode steps run so far.
//
// Every decoding sequence gains one token per step. A sequence that has g of o tokens when the
// counter reads n therefore finishes when it reads n + o - g: a key that never changes, however
// long the steps take. All keys lie within the longest output of each other, so a ring of
// that many buckets holds them without collision of different keys; it grows when a longer
// output comes.
#pragma once

#include <vector>

#include "law.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace planner {

inline int trailing_zeros(u64 word) {
#if defined(_MSC_VER) && !defined(__clang__)
  unsigned long index;
  _BitScanForward64(&index, word);
  return static_cast<int>(index);
#else
  return __builtin_ctzll(word);
#endif
}

class Calendar {
 public:
  static constexpr i32 kNone = -1;

  explicit Calendar(i64 seats) : next_(seats, kNone) { widen(64); }

  // `key` and all keys in the calendar are above `now`.
  void add(i64 key, i64 now, i32 seat) {
    if (key - now > mask_) grow(key, now);
    const i64 bucket = key & mask_;
    next_[seat] = first_[bucket];
    first_[bucket] = seat;
    occupied_[bucket >> 6] |= u64{1} << (bucket & 63);
  }

  void remove(i64 key, i32 seat) {
    const i64 bucket = key & mask_;
    i32* link = &first_[bucket];
    while (*link != seat) link = &next_[*link];
    *link = next_[seat];
    if (first_[bucket] == kNone) clear(bucket);
  }

  // Empty the bucket of `key`; walk what was in it with `after`.
  i32 take(i64 key) {
    const i64 bucket = key & mask_;
    const i32 seat = first_[bucket];
    if (seat != kNone) {
      first_[bucket] = kNone;
      clear(bucket);
    }
    return seat;
  }

  i32 after(i32 seat) const { return next_[seat]; }

  // Distance from `now` to the next key above it. There must be one.
  i64 distance(i64 now) const {
    const i64 bucket = (now + 1) & mask_;
    i64 word = bucket >> 6;
    const u64 rest = occupied_[word] >> (bucket & 63);
    if (rest) return 1 + trailing_zeros(rest);
    i64 passed = 64 - (bucket & 63);
    for (;; passed += 64) {
      word = word + 1 == static_cast<i64>(occupied_.size()) ? 0 : word + 1;
      if (occupied_[word]) return 1 + passed + trailing_zeros(occupied_[word]);
    }
  }

 private:
  void widen(i64 width) {
    first_.assign(width, kNone);
    occupied_.assign(width / 64, 0);
    mask_ = width - 1;
  }

  void grow(i64 key, i64 now) {
    const std::vector<i32> heads = first_;
    i64 width = 2 * (mask_ + 1);
    while (width <= key - now) width *= 2;
    const i64 narrow = mask_;
    widen(width);
    for (i64 ahead = 1; ahead <= narrow; ++ahead) {
      const i32 head = heads[(now + ahead) & narrow];
      if (head == kNone) continue;
      const i64 bucket = (now + ahead) & mask_;
      first_[bucket] = head;
      occupied_[bucket >> 6] |= u64{1} << (bucket & 63);
    }
  }

  void clear(i64 bucket) { occupied_[bucket >> 6] &= ~(u64{1} << (bucket & 63)); }

  std::vector<i32> first_;  // head of each bucket's list of seats
  std::vector<i32> next_;   // links of the lists, by seat
  std::vector<u64> occupied_;
  i64 mask_;
};

}  // namespace planner
