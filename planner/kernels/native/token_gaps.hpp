// The longest time between two tokens of a request, and what it would be without one cause.
//
// A decoding sequence gains one token per step, so its gaps are the steps between its joining
// and its leaving: a range of the row of all steps, of which only the largest counts. The times
// of a window of decode steps ascend, so its last step stands for all of it.
#pragma once

#include "peaks.hpp"

namespace planner {

struct TokenGaps {
  i64 decode = 0;     // longest decode step
  i64 unstalled = 0;  // longest decode step, each less what chunks of others added
  i64 stall = 0;      // the most that chunks of others added to one
  i64 solo = 0;       // longest decode step as if alone
  i64 preempted = 0;  // longest time from losing its blocks, a token behind it, to the next token

  i64 longest() const { return std::max(decode, preempted); }
};

// kOn: keep them; else there is nothing to call.
template <bool kOn>
class GapLog {
 public:
  explicit GapLog(i64) {}
};

template <>
class GapLog<true> {
 public:
  explicit GapLog(i64 seats) : joined_(seats, 0), gaps_(seats) {}

  // Steps up to `counter` took at most `longest`, of which the last one has `stall` of chunks.
  void step(i64 counter, i64 longest, i64 stall) {
    steps_.add(counter, longest);
    unstalled_.add(counter, longest - stall);
    stalls_.add(counter, stall);
  }

  void clear() {
    steps_.clear();
    unstalled_.clear();
    stalls_.clear();
  }

  void admit(i32 seat) { gaps_[seat] = TokenGaps{}; }
  void join(i32 seat, i64 counter) { joined_[seat] = counter; }

  // `solo`: its last step as if alone, the longest of them.
  void leave(i32 seat, i64 counter, i64 solo) {
    const i64 from = joined_[seat];
    if (counter == from) return;
    TokenGaps& it = gaps_[seat];
    it.decode = std::max(it.decode, steps_.since(from));
    it.unstalled = std::max(it.unstalled, unstalled_.since(from));
    it.stall = std::max(it.stall, stalls_.since(from));
    it.solo = std::max(it.solo, solo);
  }

  void waited(i32 seat, i64 time) {
    gaps_[seat].preempted = std::max(gaps_[seat].preempted, time);
  }

  const TokenGaps& of(i32 seat) const { return gaps_[seat]; }

 private:
  Peaks steps_, unstalled_, stalls_;
  std::vector<i64> joined_;  // by seat: steps so far when it began to decode
  std::vector<TokenGaps> gaps_;
};

}  // namespace planner
