// KV blocks that the decoding sequences hold, counted without visiting them.
//
// A sequence of length offset + counter holds ceil((offset + counter) / size) blocks, and takes
// one more in the step that starts with its length at a multiple of the size: one step in
// `size`, the one that its offset's residue names. So a histogram of residues tells how many
// blocks any step takes, and the account below is brought forward only when someone asks.
#pragma once

#include <algorithm>
#include <vector>

#include "law.hpp"

namespace planner {

// kSize: tokens per block, known when compiled; 0: told when run.
template <int kSize>
class DecodeBlocks {
 public:
  explicit DecodeBlocks(i64 size) : size_(size), by_residue_(size, 0) {}

  i64 size() const { return kSize ? kSize : size_; }

  i64 ceil(i64 tokens) const {  // tokens >= 0
    return static_cast<i64>((static_cast<u64>(tokens) + size() - 1) / static_cast<u64>(size()));
  }

  void join(i64 offset) {
    ++members_;
    ++by_residue_[residue(offset)];
    held_ += signed_ceil(offset + at_);
  }

  void leave(i64 offset) {
    --members_;
    --by_residue_[residue(offset)];
    held_ -= signed_ceil(offset + at_);
  }

  // Blocks held when the counter reads `counter`, which never goes back between two calls.
  i64 held(i64 counter) {
    i64 steps = counter - at_;
    if (steps >= size()) {
      held_ += steps / size() * members_;
      steps %= size();  // whole turns change no residue
    }
    for (i64 bin = residue(steps - counter); steps > 0; --steps) {
      held_ += by_residue_[bin];
      bin = bin == 0 ? size() - 1 : bin - 1;
    }
    at_ = counter;
    return held_;
  }

  // Largest s in [0, limit] for which s more steps keep the blocks within `room`.
  // Follows a call of held(): counts from its counter.
  i64 steps_within(i64 room, i64 limit) const {
    room -= held_;
    const i64 turns = std::min(room / members_, limit / size());
    room -= turns * members_;
    i64 steps = turns * size();
    for (i64 bin = residue(-at_); steps < limit && by_residue_[bin] <= room; ++steps) {
      room -= by_residue_[bin];
      bin = bin == 0 ? size() - 1 : bin - 1;
    }
    return steps;
  }

 private:
  i64 residue(i64 x) const {
    const i64 rest = x % size();
    return rest < 0 ? rest + size() : rest;
  }

  // An offset is negative where a sequence is shorter than the counter, and the account may
  // stand before the join: the sum is what it would have held, a telescope that cancels.
  i64 signed_ceil(i64 x) const { return (x + residue(-x)) / size(); }

  i64 size_;
  std::vector<i32> by_residue_;
  i64 members_ = 0;
  i64 at_ = 0;    // counter at which the account stands
  i64 held_ = 0;  // blocks held then
};

}  // namespace planner
