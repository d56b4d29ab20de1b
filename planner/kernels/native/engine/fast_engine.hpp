// One V1 engine with one step at a time, in O(1) per step, and many steps at once where nothing
// but decoding can happen.
//
// Lazy requests. A decoding request gains one token per step. It is counted in sums (how many,
// their context, when the next ones finish, how their blocks grow) and its own fields stand
// still; a step costs the same with 1 or 1,000 of them. Whoever is not in that state (a prompt
// in pieces, a decode that the budget passed by) is served one by one. If blocks run out, all
// lazy requests are told their state, and the scheduler's own pass runs over them.
//
// Windows. In a step of lazy requests alone, in which nobody was preempted, whoever waits was
// refused for a reason that stays while nobody finishes: slots stay taken, the budget stays
// spent, free blocks only fall. So the next steps differ by arithmetic, up to the next finish,
// the last step that blocks allow, or the tick at which the waiting head is refused for good. What
// comes from outside cuts the window at the first boundary that would see it.
//
// Law: each result is that of LiteralEngine, to the bit.
#pragma once

#include <vector>

#include "../blocks.hpp"
#include "../calendar.hpp"
#include "lazy_engine.hpp"
#include "stages.hpp"

namespace planner::engine {

// Whether a FastEngine can serve these options.
inline bool can_skip(const Options& options) {
  return options.kind == Kind::kV1 && options.depth() == 1 &&
         options.max_num_seqs <= options.max_num_batched_tokens &&  // all decodes fit a step
         options.block_size <= (1 << 16);
}

// kBlockSize: tokens per block, known when compiled; 0: told when run.
template <int kBlockSize>
class FastEngine final : public LazyEngine {
 public:
  // `ledger`: null, or where the time of requests is accounted for; then law.only_adds().
  FastEngine(const Options& options, const Law& law, const Traffic& traffic, Columns& columns,
             i64 index, Ledger* ledger)
      : LazyEngine(options, law, traffic, columns), index_(index), ledger_(ledger),
        calendar_(std::min(options.max_num_seqs, traffic.count)),
        growth_(options.block_size) {}

  void enqueue(Request* it, i64 now, bool scheduled) override {
    waiting_.add(it);
    // in an account, whether the head lacks blocks is asked at each boundary
    if (steps_ahead_ > 1 && waiting_.head() == it && (ledger_ || may_enter(*it)))
      cut(now, scheduled);
  }

  void loaded(Request* it, i64 now, bool scheduled) override {
    it->loaded = true;
    ++loaded_count_;
    if (steps_ahead_ > 1 && running_.size() < options_.max_num_seqs) cut(now, scheduled);
  }

  void look(i64 now, bool scheduled) override {
    if (steps_ahead_ > 1) grow_to(counter_ + steps_begun(now, scheduled));
  }

  bool can_schedule() const override { return end_ == kNever; }
  bool in_flight() const override { return end_ != kNever; }
  i64 last_end() const override { return end_; }
  i64 next_end() const override { return end_; }

  bool schedule(i64 now) override {
    plan_.clear();
    const i64 budget = serve_running(now);
    if (plan_.preempted.empty()) waiting_pass(budget, now);
    settle(now);
    if (ledger_) ledger_->scheduled(index_, now, plan_, !waiting_.empty());
    if (plan_.items.empty() && decoding_ == 0) return false;
    set_end(now);
    ++steps_;
    return true;
  }

  void complete(i64 now, std::vector<Sampled>* sampled) override {
    grow_to(counter_ + steps_ahead_);
    if (decoding_) gaps_.add(counter_ + steps_ahead_, last_duration_);
    if (gaps_.keeps_ends()) {
      for (i64 i = 1; i < steps_ahead_; ++i) gaps_.add_end(start_ + run_.ticks(i));
      gaps_.add_end(end_);
    }
    if (ledger_) account();
    steps_ += steps_ahead_ - 1;
    counter_ += steps_ahead_;
    context_ += steps_ahead_ * decoding_;
    steps_ahead_ = 0;
    end_ = kNever;
    if (decoding_) finish_lazy(now, sampled);
    if (decoding_ == 0) {
      gaps_.clear(counter_);
      shared_.clear();
    }
    if (!plan_.items.empty()) complete_items(sampled);
    if (pool_.caching() && sampled->size() > 1)  // freed blocks queue up in the step's order
      std::sort(sampled->begin(), sampled->end(), [](const Sampled& a, const Sampled& b) {
        return a.request->order < b.request->order;
      });
  }

 private:
  // --- blocks of lazy requests ---

  void grow_to(i64 counter) {
    if (decoding_ == 0) {
      growth_.held(counter);
    } else if (counter != grown_) {
      const i64 before = growth_.held(grown_);
      const i64 more = growth_.held(counter) - before;
      if (more > 0) pool_.take_nameless(more);
    }
    grown_ = counter;
  }

  // Whether lazy requests can take one more token each, beside `others` blocks.
  bool fits(i64 others) {
    const i64 room = pool_.free() - others;
    if (room >= decoding_) return true;
    return room >= 0 && growth_.steps_within(growth_.held(counter_) + room, 1) == 1;
  }

  // --- becoming lazy, and being told one's state ---

  void join(Request* it) {
    take_seat(it);
    it->lazy = true;
    it->offset = it->computed - counter_;
    it->finish_key = counter_ + it->target - it->outputs;
    it->joined = counter_;
    calendar_.add(it->finish_key, counter_, it->seat);
    growth_.join(it->offset);
    if (ledger_) ledger_->joined(it->rank, shared_.unstalled());
    context_ += it->computed;
    ++decoding_;
  }

  // Leaves everything but the calendar.
  void leave(Request* it, i64 now) {
    it->lazy = false;
    it->computed = it->offset + counter_;
    it->blocks = pool_.blocks_of(it->computed);
    if (pool_.caching()) it->named = std::max(it->named, it->computed / pool_.block_size());
    growth_.leave(it->offset);
    context_ -= it->computed;
    --decoding_;
    if (ledger_ && counter_ > it->joined) account_of_lazy(*it, now);
    leave_seat(it, counter_, now);
  }

  // --- accounts ---

  // Of the step that ends, or the steps of the window.
  void account() {
    const i64 ticks = end_ - start_, last = counter_ + steps_ahead_;
    if (plan_.items.empty()) {
      shared_.add(last, ticks, last_duration_, last_duration_);
      return;
    }
    const i64 without_chunks = Ledger::without_chunks(plan_.items, lazy_work(), law_);
    if (decoding_) shared_.add(last, without_chunks, ticks, without_chunks);
    ledger_->completed(plan_.items, start_, end_, without_chunks, law_);
  }

  void account_of_lazy(const Request& it, i64 now) {
    const i64 steps = counter_ - it.joined, before = it.computed - steps;
    ledger_->left(it.rank, now,
                  {law_.decodes_alone(before, steps), shared_.unstalled(),
                   gaps_.longest_since(it.joined), shared_.longest_unstalled(it.joined),
                   shared_.longest_stall(it.joined), law_.decodes_alone(it.computed - 1, 1)});
  }

  // What the lazy requests compute in the step at hand.
  Work lazy_work() const {
    Work work;
    work.tokens = work.requests = decoding_;
    work.decode_context = context_ + decoding_;
    return work;
  }

  // --- the end of a step, or of a window ---

  void finish_lazy(i64 now, std::vector<Sampled>* sampled) {
    for (i32 seat = calendar_.take(counter_); seat != Calendar::kNone;) {
      const i32 next = calendar_.after(seat);
      Request* it = seats_[seat];
      leave(it, now);
      it->in_system = false;
      running_.remove(it);
      sampled->push_back({it, true, true});
      seat = next;
    }
  }

  void complete_items(std::vector<Sampled>* sampled) {
    for (const Scheduled& item : plan_.items) {
      Request* it = item.request;
      --it->flying;
      if (!item.samples) continue;
      const bool ended = ++it->outputs >= it->target;
      if (ended) {
        it->in_system = false;
        running_.remove(it);
      } else {
        join(it);
      }
      sampled->push_back({it, ended, false});
    }
    std::size_t kept = 0;
    for (Request* it : alone_)
      if (it->in_system && !it->lazy) alone_[kept++] = it;
    alone_.resize(kept);
    plan_.items.clear();
  }

  // --- the start of a step ---

  i64 serve_running(i64 now) {
    const i64 budget = options_.max_num_batched_tokens;
    i64 tokens = decoding_, blocks = 0;
    for (const Request* it : alone_) tokens += piece(it->missing());
    i64 cut = 0;  // off the last piece
    if (tokens > budget) {
      if (alone_.size() > 1 || alone_[0] != running_.last()) return serve_one_by_one(now);
      cut = tokens - budget;
      tokens = budget;
    }
    for (const Request* it : alone_)
      blocks += pool_.needed(*it, it->computed + piece(it->missing()) - cut);
    if (!fits(blocks)) return serve_one_by_one(now);
    for (Request* it : alone_) {
      const i64 fresh = piece(it->missing()) - cut;
      pool_.take(it, it->computed + fresh);
      give(it, fresh);
    }
    if (decoding_) grow_to(counter_ + 1);
    return budget - tokens;
  }

  i64 serve_one_by_one(i64 now) {
    for (Request* it = running_.first(); it; it = it->after) {
      if (!it->lazy) continue;
      calendar_.remove(it->finish_key, it->seat);
      leave(it, now);
    }
    const i64 budget = running_pass();
    alone_.clear();
    for (Request* it = running_.first(); it; it = it->after) alone_.push_back(it);
    return budget;
  }

  // How long the step takes, or how many steps go by until something happens.
  void set_end(i64 now) {
    Work work = lazy_work();
    add_items(&work);
    start_ = now;
    steps_ahead_ = 1;
    const i64 first = law_.sum(work), slope = law_.c_k * decoding_;
    if (!plan_.items.empty() || slope < 0 || first < 1) {
      last_duration_ = std::max<i64>(0, first);
      end_ = later(now, last_duration_);
      return;
    }
    run_ = DecodeRun(first, slope);
    const i64 steps = run_.within_64_bits(calendar_.distance(counter_));
    set_window(before_refusal(now, within_blocks(steps)));
  }

  void set_window(i64 steps) {
    steps_ahead_ = steps;
    end_ = later(start_, run_.ticks(steps));
    last_duration_ = run_.duration(steps - 1);  // the longest: context grows
  }

  i64 within_blocks(i64 steps) {  // the first of them has its blocks
    const i64 room = pool_.free();
    if (steps == 1 || decoding_ * (steps / pool_.block_size() + 1) <= room) return steps;
    return 1 + growth_.steps_within(growth_.held(counter_ + 1) + room, steps - 1);
  }

  // The head may be refused for good inside of the window: when its deadline can no longer be
  // met, or when so much of its cached prefix is given away that no uncut step holds the rest.
  i64 before_refusal(i64 now, i64 steps) {
    const bool deadlines = options_.policy == Policy::kDeadline;
    const bool uncut = !options_.chunked && pool_.caching();
    if (!deadlines && !uncut) return steps;
    const Request* head = next_waiting();
    if (!head || decoding_ >= options_.max_num_batched_tokens ||
        running_.size() == options_.max_num_seqs)
      return steps;  // nobody is looked at
    // as its cached prefix is given away it may lack room in the step instead of blocks
    if (uncut && (ledger_ || piece(head->tokens()) > options_.max_num_batched_tokens)) return 1;
    const i64 tick = hopeless_from(*head);
    return tick == kNever ? steps : run_.steps_to_cover(std::max<i64>(1, tick - now), steps);
  }

  // --- what comes from outside while a window is open ---

  // Whether the new head could be admitted, or refused for good, inside of the window.
  bool may_enter(const Request& it) const {
    const i64 budget = options_.max_num_batched_tokens - decoding_;
    if (running_.size() == options_.max_num_seqs || budget <= 0) return false;
    if (pool_.caching() || options_.policy == Policy::kDeadline) return true;
    i64 tokens = it.tokens();
    if (!it.remote && !options_.reserve_full)
      tokens = it.computed + std::min(piece(tokens - it.computed), budget);
    return pool_.needed(it, tokens) + options_.watermark_blocks <= pool_.free();
  }

  // Steps of the window that begin before the scheduling at `now`, or with it.
  i64 steps_begun(i64 now, bool scheduled) const {
    return run_.steps_to_cover(now - start_ + scheduled, steps_ahead_);
  }

  void cut(i64 now, bool scheduled) {
    const i64 steps = steps_begun(now, scheduled);
    if (steps < steps_ahead_) set_window(steps);
  }

  const i64 index_;
  Ledger* const ledger_;  // null: nobody asks where time went
  SharedTime shared_;
  Calendar calendar_;
  DecodeBlocks<kBlockSize> growth_;
  i64 counter_ = 0;      // steps so far: the clock of all lazy requests
  i64 grown_ = 0;        // counter for which they hold their blocks
  i64 decoding_ = 0;     // how many
  i64 context_ = 0;      // their computed tokens
  DecodeRun run_;        // of the window
  i64 start_ = 0, end_ = kNever;
  i64 steps_ahead_ = 0;  // steps in flight, one after the other; 0: idle
  i64 last_duration_ = 0;
};

}  // namespace planner::engine
