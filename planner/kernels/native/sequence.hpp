// A request on its way through a replica, and the queue in which it waits.
#pragma once

#include <limits>
#include <vector>

#include "law.hpp"

namespace planner {

constexpr i64 kNever = std::numeric_limits<i64>::max();
constexpr i64 kLastTime = i64{1} << 62;  // 53 days; below it no sum of two times overflows

struct Request {
  i64 arrival;
  i32 id, prompt, output;
};

// A request that has been admitted, and keeps its seat in memory until it finishes.
struct Sequence {
  Request request;
  i32 generated;           // outputs so far; at least 1 while decoding, exact while not
  i32 preemptions;
  i64 offset;              // length - counter, constant while decoding
  i64 finish_key;          // counter at its last token
  u64 stall_mark;          // stall clock when it began to decode
  i64 decode_stall;
  i64 first_scheduled, first_token;
  i64 block_wait;          // at the head of the queue, refused for lack of blocks
  i64 prefill_own;         // its chunks before the first token, each alone in a step
  i64 preempted_since;     // kNever unless it lost its blocks and has no new token yet
  i64 preempted;
  i64 preempted_early;     // the part of it before the first token
  i64 solo_lost;           // solo time of the tokens that recomputation brought, not decoding
  i32 before, after;       // neighbours among the running, in order of admission
};

// First in, first out; grows, never shrinks.
class WaitingQueue {
 public:
  WaitingQueue() : ring_(64) {}
  bool empty() const { return head_ == tail_; }
  i64 size() const { return static_cast<i64>(tail_ - head_); }
  const Request& front() const { return ring_[head_ & (ring_.size() - 1)]; }
  void pop() { ++head_; }
  void push(const Request& request) {
    if (tail_ - head_ == ring_.size()) {
      std::vector<Request> wider(ring_.size() * 2);
      const u64 narrow = ring_.size() - 1, wide = wider.size() - 1;
      for (u64 i = head_; i < tail_; ++i) wider[i & wide] = ring_[i & narrow];
      ring_.swap(wider);
    }
    ring_[tail_++ & (ring_.size() - 1)] = request;
  }

  // Count all arrivals from a later zero.
  void shift(i64 by) {
    for (u64 i = head_; i < tail_; ++i) ring_[i & (ring_.size() - 1)].arrival -= by;
  }

 private:
  std::vector<Request> ring_;
  u64 head_ = 0, tail_ = 0;
};

// A request's time from arrival to last token, without remainder.
struct Stages {
  i64 queue, block_wait, prefill_own, prefill_stretch;
  i64 decode_solo, decode_batch, decode_stall, preempted;
};

// From readings that the replica took anyway: closed forms, and differences of clocks.
inline Stages stages_of(const StepLaw& law, const Sequence& it, i64 finish) {
  Stages s;
  s.block_wait = it.block_wait;
  s.queue = it.first_scheduled - it.request.arrival - it.block_wait;
  s.prefill_own = it.prefill_own;
  s.prefill_stretch =
      it.first_token - it.first_scheduled - it.preempted_early - it.prefill_own;
  s.decode_solo = law.solo(it.request.prompt, i64{it.request.output} - 1) - it.solo_lost;
  s.decode_stall = it.decode_stall;
  s.preempted = it.preempted;
  s.decode_batch = finish - it.first_token - (it.preempted - it.preempted_early) - s.decode_solo -
                   s.decode_stall;
  return s;
}

}  // namespace planner
