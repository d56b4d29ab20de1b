// One replica of an engine with continuous batching, chunked prefill, paged KV cache and
// preemption by recomputation (the scheduler of vLLM V1): exact, in O(1) per event.
//
// Two ideas make it fast, and neither changes a result.
//
// Aggregation. Every decoding sequence gains exactly one token per step, so all that a step
// needs to know of them is kept as sums: how many (decoding_), their total length (context_),
// when the next ones finish (Calendar), their blocks (DecodeBlocks), and a clock that runs only
// in the time that prefill adds (stall_clock_); a request's own stall is a difference of two
// readings. A step costs the same with 1 or 1,000 decoding sequences.
//
// Event skipping. While no prefill is pending and the waiting head cannot enter, steps differ
// only by arithmetic: `steps_` of them are taken at once, up to the next finish or the last
// step that memory allows. Nothing inside such a window could have let the head in, because
// seats stay taken and free blocks only fall. A request that comes while the window is open and
// heads the queue cuts it at the first boundary at or after its arrival.
//
// The same clocks split each request's time into stages (Sequence, stages_of): what a request
// spends in a stage is a difference of two readings or a closed form, so skipping loses nothing.
// Only the wait for blocks needs a clock of its own: it runs for the head of the queue, which
// changes by admission alone.
//
// Order of simultaneous events: the steps that end at t are completed, then requests that
// arrive at t are routed and queued, then the next step is scheduled and sees all of them. Only
// a router that counts can tell, and settles for it; others push before the boundary at t.
#pragma once

#include <vector>

#include "blocks.hpp"
#include "calendar.hpp"
#include "law.hpp"
#include "sequence.hpp"
#include "token_gaps.hpp"

namespace planner {

struct Limits {
  i64 max_num_seqs;
  i64 max_num_batched_tokens;
  i64 kv_blocks;
  i64 block_size;
  bool reserve_full_prompt;
  i64 watermark_blocks;
};

struct Totals {
  i64 steps = 0, events = 0, busy = 0, peak_blocks = 0;
};

// Sink: void finished(const Sequence&, i64 time, i32 replica); void rejected(const Request&);
// where its kGaps is true, finished takes the request's TokenGaps too.
template <int kBlockSize, class Sink>
class Replica {
 public:
  Replica(const StepLaw& law, const Limits& limits, i32 index, Sink* sink)
      : law_(law), limits_(limits), index_(index), sink_(sink), seats_(limits.max_num_seqs),
        calendar_(limits.max_num_seqs), blocks_(limits.block_size), gaps_(limits.max_num_seqs) {
    for (i64 seat = limits.max_num_seqs; seat > 0;) free_seats_.push_back(static_cast<i32>(--seat));
  }

  // Take a request. All boundaries before its arrival are done already, none after it, and it
  // fits an empty replica. `late`: it comes behind the boundary at its arrival, so that one
  // inside a window is not for it.
  void push(const Request& request, bool late) {
    if (overflowed_) return;
    const i64 now = request.arrival;
    const bool heads_queue = waiting_.empty() && preempted_.empty();
    waiting_.push(request);
    if (boundary_ == kNever) {  // idle: wake up, without a step to complete
      start_ = boundary_ = now;
      steps_ = 0;
    } else if (steps_ > 1 && heads_queue) {
      cut_window(now + late, request);
    }
  }

  // Pass every step boundary before `until`.
  void advance(i64 until) {
    while (boundary_ < until) {
      complete();
      schedule();
    }
  }

  // Pass every step boundary before `now`, and complete a step that ends then: the next one is
  // scheduled when time passes `now`, and sees whoever comes until then.
  void settle(i64 now) {
    while (boundary_ <= now) {
      complete();
      if (boundary_ == now) {
        steps_ = 0;
        return;
      }
      schedule();
    }
  }

  // Count time from a later zero. False if someone then came too long ago for 64 bits.
  bool shift(i64 by) {
    if (boundary_ != kNever) {
      start_ -= by;
      boundary_ -= by;
    }
    if (blocked_since_ != kNever) blocked_since_ -= by;
    i64 oldest = 0;
    for (i32 seat = last_running_; seat != kNone; seat = seats_[seat].before)
      oldest = std::min(oldest, shift(seats_[seat], by));
    for (const i32 seat : preempted_) oldest = std::min(oldest, shift(seats_[seat], by));
    waiting_.shift(by);
    if (!waiting_.empty()) oldest = std::min(oldest, waiting_.front().arrival);
    return oldest >= -kLastTime;
  }

  // Busy time since the last call: a sum that outgrows 64 bits has to be kept elsewhere.
  i64 take_busy() {
    const i64 busy = totals_.busy;
    totals_.busy = 0;
    return busy;
  }

  i64 next_boundary() const { return boundary_; }  // kNever: idle
  i64 queued() const { return static_cast<i64>(preempted_.size()) + waiting_.size(); }
  i64 outstanding() const {
    return running_ + queued();
  }
  const Totals& totals() const { return totals_; }
  bool overflowed() const { return overflowed_; }  // the clock ran out: it stands still for good

 private:
  static constexpr i32 kNone = -1;

  // --- KV blocks --------------------------------------------------------------------------

  // Whether the decoding set has its blocks for the coming step beside `others` blocks.
  // A sequence wastes less than a block, so the sum of lengths mostly settles it.
  bool fits(i64 others) {
    const i64 room = limits_.kv_blocks - others;
    return context_ + blocks_.size() * decoding_ <= blocks_.size() * room ||
           blocks_.held(counter_ + 1) <= room;
  }

  i64 chunk_blocks(i64 tokens) const { return blocks_.ceil(tokens); }

  // --- running and decoding ---------------------------------------------------------------

  void append_running(i32 seat) {
    seats_[seat].before = last_running_;
    seats_[seat].after = kNone;
    if (last_running_ != kNone) seats_[last_running_].after = seat;
    last_running_ = seat;
    ++running_;
  }

  void remove_running(i32 seat) {
    const i32 before = seats_[seat].before, after = seats_[seat].after;
    if (before != kNone) seats_[before].after = after;
    if (after != kNone) seats_[after].before = before; else last_running_ = before;
    --running_;
  }

  void start_decoding(i32 seat, i64 length) {
    Sequence& it = seats_[seat];
    it.offset = length - counter_;
    it.finish_key = counter_ + it.request.output - it.generated;
    it.stall_mark = stall_clock_;
    ++decoding_;
    context_ += length;
    blocks_.join(it.offset);
    if constexpr (Sink::kGaps) gaps_.join(seat, counter_);
    calendar_.add(it.finish_key, counter_, seat);
  }

  void stop_decoding(i32 seat) {
    Sequence& it = seats_[seat];
    if constexpr (Sink::kGaps)
      gaps_.leave(seat, counter_, law_.solo(it.offset + counter_ - 1, 1));
    --decoding_;
    context_ -= it.offset + counter_;
    blocks_.leave(it.offset);
    it.decode_stall += static_cast<i64>(stall_clock_ - it.stall_mark);
  }

  void finish(i32 seat) {
    if constexpr (Sink::kGaps) {
      sink_->finished(seats_[seat], boundary_, index_, gaps_.of(seat));
    } else {
      sink_->finished(seats_[seat], boundary_, index_);
    }
    remove_running(seat);
    free_seats_.push_back(seat);
  }

  // --- the end of a step, or of a window of decode steps ----------------------------------

  void complete() {
    if (steps_ == 0) return;
    totals_.steps += steps_;
    totals_.events += 1;
    totals_.busy += boundary_ - start_;
    counter_ += steps_;
    context_ += steps_ * decoding_;
    stall_clock_ += static_cast<u64>(prefill_time_);
    if (blocked_since_ != kNever) {
      head_block_wait_ += boundary_ - blocked_since_;
      blocked_since_ = kNever;
    }
    note_peak();
    if (decoding_) {
      if constexpr (Sink::kGaps) {
        const i64 grown = law_.context_ps * decoding_ * (steps_ - 1);
        gaps_.step(counter_, first_step_ + prefill_time_ + grown, prefill_time_);
      }
      for (i32 seat = calendar_.take(counter_); seat != kNone;) {
        const i32 next = calendar_.after(seat);
        stop_decoding(seat);
        finish(seat);
        seat = next;
      }
      if constexpr (Sink::kGaps) {
        if (decoding_ == 0) gaps_.clear();
      }
    }
    partial_computed_ += partial_chunk_;
    partial_chunk_ = 0;
    for (const i32 seat : prefilled_) emit_after_prefill(seat);
    prefilled_.clear();
  }

  void emit_after_prefill(i32 seat) {
    Sequence& it = seats_[seat];
    const i64 computed = i64{it.request.prompt} + it.generated;
    const bool first = ++it.generated == 1;
    if (first) it.first_token = boundary_;
    if (it.preempted_since != kNever) {
      if constexpr (Sink::kGaps) {
        if (!first) gaps_.waited(seat, boundary_ - it.preempted_since);
      }
      it.preempted += boundary_ - it.preempted_since;
      it.preempted_since = kNever;
      if (first) {
        it.preempted_early = it.preempted;
      } else {
        it.solo_lost += law_.solo(computed - 1, 1);
      }
    }
    if (it.generated == it.request.output) {
      finish(seat);
    } else {
      start_decoding(seat, computed);
    }
  }

  // Blocks only grow inside a window, so its last step holds the most.
  void note_peak() {
    const i64 missing = totals_.peak_blocks - prefill_blocks_;
    if (context_ + (blocks_.size() - 1) * decoding_ <= blocks_.size() * missing) return;
    const i64 held = blocks_.held(counter_) + prefill_blocks_;
    if (held > totals_.peak_blocks) totals_.peak_blocks = held;
  }

  // --- the start of a step ----------------------------------------------------------------

  void schedule() {
    start_ = boundary_;
    prefill_ = Prefill{};
    bool closed = make_room();
    budget_ = limits_.max_num_batched_tokens - decoding_;
    if (partial_ != kNone) closed |= !continue_partial();
    if (!closed) admit();
    set_boundary(closed);
  }

  // Preempt from the end until the decoding set has its blocks. The engine asks for them one
  // sequence at a time and preempts the last one whenever it is short. What survives is the
  // same: it never preempts while the whole set fits, and goes on until it does.
  bool make_room() {
    bool preempted = false;
    prefill_blocks_ = partial_ == kNone ? 0 : chunk_blocks(partial_computed_);
    while (!fits(prefill_blocks_)) {
      preempt_last();
      preempted = true;
      if (partial_ == kNone) prefill_blocks_ = 0;
    }
    return preempted;
  }

  void preempt_last() {
    const i32 seat = last_running_;
    Sequence& it = seats_[seat];
    remove_running(seat);
    ++it.preemptions;
    if (it.preempted_since == kNever) it.preempted_since = start_;
    if (seat == partial_) {
      partial_ = kNone;
      partial_computed_ = 0;
    } else {
      it.generated = it.request.output - static_cast<i32>(it.finish_key - counter_);
      calendar_.remove(it.finish_key, seat);
      stop_decoding(seat);
    }
    preempted_.push_back(seat);
  }

  // At most one prefill is unfinished, and it is the last of the running: it was left
  // unfinished because it took all that was left of the budget. Now it gets at least one token,
  // because the decoding sequences are fewer than max_num_seqs <= max_num_batched_tokens.
  bool continue_partial() {
    const i32 seat = partial_;
    const i64 target = i64{seats_[seat].request.prompt} + seats_[seat].generated;
    const i64 chunk = std::min(target - partial_computed_, budget_);
    const i64 blocks = chunk_blocks(partial_computed_ + chunk);
    if (!fits(blocks)) {
      preempt_last();
      prefill_blocks_ = 0;
      return false;
    }
    prefill_blocks_ = blocks;
    add_chunk(seats_[seat], partial_computed_, chunk);
    if (partial_computed_ + chunk == target) {
      prefilled_.push_back(seat);
      partial_ = kNone;
      partial_computed_ = 0;
    } else {
      partial_chunk_ = chunk;
    }
    return true;
  }

  void add_chunk(Sequence& it, i64 cached_before, i64 fresh) {
    prefill_.add(cached_before, fresh);
    budget_ -= fresh;
    if (it.preempted_since == kNever) it.prefill_own += law_.chunk_alone(cached_before, fresh);
  }

  // Blocks that must be free before a sequence of `target` tokens may enter.
  i64 admission_blocks(i64 target, i64 chunk) const {
    return chunk_blocks(limits_.reserve_full_prompt ? target : chunk) +
           (running_ ? limits_.watermark_blocks : 0);
  }

  // Preempted sequences stand before all others, the last one preempted first.
  void admit() {
    while (budget_ > 0 && running_ < limits_.max_num_seqs) {
      const bool resumed = !preempted_.empty();
      if (!resumed && waiting_.empty()) return;
      i32 seat = resumed ? preempted_.back() : kNone;
      const i64 target = resumed ? i64{seats_[seat].request.prompt} + seats_[seat].generated
                                 : i64{waiting_.front().prompt};
      const i64 chunk = std::min(target, budget_);
      if (!fits(prefill_blocks_ + admission_blocks(target, chunk))) {
        if (!resumed) blocked_since_ = start_;
        return;
      }
      if (resumed) {
        preempted_.pop_back();
      } else {
        seat = take_waiting();
      }
      append_running(seat);
      prefill_blocks_ += chunk_blocks(chunk);
      add_chunk(seats_[seat], 0, chunk);
      if (chunk < target) {
        partial_ = seat;
        partial_computed_ = 0;
        partial_chunk_ = chunk;
      } else {
        prefilled_.push_back(seat);
      }
    }
  }

  i32 take_waiting() {
    const i32 seat = free_seats_.back();
    free_seats_.pop_back();
    Sequence& it = seats_[seat];
    it.request = waiting_.front();
    waiting_.pop();
    if constexpr (Sink::kGaps) gaps_.admit(seat);
    it.generated = 0;
    it.decode_stall = 0;
    it.first_scheduled = start_;
    it.block_wait = head_block_wait_;
    head_block_wait_ = 0;
    it.prefill_own = 0;
    it.preempted_since = kNever;
    it.preempted = 0;
    it.preempted_early = 0;
    it.solo_lost = 0;
    it.preemptions = 0;
    return seat;
  }

  // How long the scheduled step takes, or how many decode steps go by until something happens.
  void set_boundary(bool closed) {
    prefill_time_ = 0;
    if (prefill_.tokens == 0 && decoding_ == 0) {
      steps_ = 0;
      boundary_ = kNever;
      return;
    }
    first_step_ = law_.decode(decoding_, context_ + decoding_);
    steps_ = 1;
    i64 duration = first_step_;
    if (prefill_.tokens) {
      prefill_time_ = law_.added_by(prefill_, decoding_);
      duration += prefill_time_;
    } else if (!closed) {  // a closed door opens with the next step: look again then
      steps_ = steps_in_memory(calendar_.distance(counter_));
      duration = law_.run(first_step_, decoding_, steps_);
    }
    boundary_ = start_ + duration;
    if (boundary_ >= kLastTime) {
      overflowed_ = true;
      boundary_ = kNever;
    }
  }

  i64 steps_in_memory(i64 steps) {  // the first of them fits: make_room saw to it
    const i64 size = blocks_.size();
    if (steps == 1 || context_ + (steps + size - 1) * decoding_ <= size * limits_.kv_blocks)
      return steps;
    blocks_.held(counter_ + 1);
    return 1 + blocks_.steps_within(limits_.kv_blocks, steps - 1);
  }

  // Where the newcomer can enter for certain not, for lack of blocks, the window stays whole,
  // and its wait for blocks begins with the step that would have been its first.
  void cut_window(i64 now, const Request& request) {
    if (running_ == limits_.max_num_seqs) return;
    const i64 budget = limits_.max_num_batched_tokens - decoding_;
    const i64 needed = admission_blocks(request.prompt, std::min<i64>(request.prompt, budget));
    const i64 steps = law_.steps_to_cover(now - start_, first_step_, decoding_, steps_);
    const i64 looked_at = start_ + law_.run(first_step_, decoding_, steps);
    if (blocks_.size() * (limits_.kv_blocks - needed) < context_) {
      blocked_since_ = looked_at;
    } else {
      steps_ = steps;
      boundary_ = looked_at;
    }
  }

  static i64 shift(Sequence& it, i64 by) {
    it.request.arrival -= by;
    it.first_scheduled -= by;
    if (it.generated > 0) it.first_token -= by;
    if (it.preempted_since != kNever) it.preempted_since -= by;
    return it.request.arrival;
  }

  const StepLaw law_;
  const Limits limits_;
  const i32 index_;
  Sink* const sink_;

  std::vector<Sequence> seats_;
  std::vector<i32> free_seats_;
  std::vector<i32> preempted_;  // a stack: its top is the head of the queue
  std::vector<i32> prefilled_;  // sequences whose prefill ends with this step
  WaitingQueue waiting_;
  Calendar calendar_;
  DecodeBlocks<kBlockSize> blocks_;

  i64 counter_ = 0;      // steps so far: the clock of all decoding sequences
  i64 decoding_ = 0;     // B
  i64 context_ = 0;      // sum of their lengths, the tokens in the KV cache
  i64 running_ = 0;      // decoding, partial or prefilled
  i32 last_running_ = kNone;
  u64 stall_clock_ = 0;  // time that prefill has added to steps so far; may wrap: only
                         // differences count
  i64 head_block_wait_ = 0;       // so far, of the head of the waiting
  i64 blocked_since_ = kNever;    // it is refused for lack of blocks since then

  i32 partial_ = kNone;        // the sequence whose prefill takes several steps
  i64 partial_computed_ = 0;   // its tokens in the KV cache
  i64 partial_chunk_ = 0;      // its tokens in this step

  Prefill prefill_;            // of the step in progress
  i64 prefill_blocks_ = 0;     // blocks of running sequences that do not decode
  i64 budget_ = 0;
  i64 prefill_time_ = 0;
  i64 first_step_ = 0;         // time of the window's first step
  i64 start_ = 0;
  i64 boundary_ = kNever;      // end of the step or window in progress
  i64 steps_ = 0;              // steps in it
  bool overflowed_ = false;
  GapLog<Sink::kGaps> gaps_;
  Totals totals_;
};

}  // namespace planner
