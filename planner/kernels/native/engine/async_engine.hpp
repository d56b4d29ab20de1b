// One V1 engine with asynchronous scheduling: two steps in flight, in O(1) per step, and many at
// once where nothing but decoding can happen.
//
// As FastEngine, with two clocks. Step j is scheduled when step j - 2 completes: `scheduled_`
// counts the one, `completed_` the other. A decoding request is lazy from the schedule that
// samples its newest token; it leaves the sums after the schedule of its last step (one later
// if its end cannot be foreseen), and the engine when the step of its last token completes.
//
// Windows. With two steps of lazy requests alone in flight, the next completions and schedules
// differ by arithmetic, up to the next one that leaves, ends, or wants blocks that are not there.
//
// Law: each result is that of LiteralEngine, to the bit.
#pragma once

#include <vector>

#include "../blocks.hpp"
#include "../calendar.hpp"
#include "lazy_engine.hpp"

namespace planner::engine {

// Whether an AsyncEngine can serve these options.
inline bool can_skip_asynchronously(const Options& options) {
  return options.kind == Kind::kV1 && options.async && options.pp_degree == 1 &&
         options.max_num_seqs <= options.max_num_batched_tokens &&
         options.block_size <= (1 << 16);
}

class AsyncEngine final : public LazyEngine {
 public:
  AsyncEngine(const Options& options, const Law& law, const Traffic& traffic, Columns& columns)
      : LazyEngine(options, law, traffic, columns),
        leaving_(std::min(options.max_num_seqs, traffic.count)),
        ending_(std::min(options.max_num_seqs, traffic.count)),
        growth_(options.block_size) {}

  void enqueue(Request* it, i64 now, bool scheduled) override {
    waiting_.add(it);
    if (ahead_ > 0 && waiting_.head() == it && may_enter(*it)) cut(now, scheduled);
  }

  void loaded(Request* it, i64 now, bool scheduled) override {
    it->loaded = true;
    ++loaded_count_;
    if (ahead_ > 0 && running_.size() < options_.max_num_seqs) cut(now, scheduled);
  }

  void look(i64 now, bool scheduled) override {
    if (ahead_ > 0) grow_to(scheduled_ + completions_before(now + scheduled, ahead_));
  }

  bool can_schedule() const override { return flights_ < 2 && !stalled_; }
  bool in_flight() const override { return flights_ > 0; }
  i64 last_end() const override { return flight_[flights_ - 1].end; }
  i64 next_end() const override { return flights_ ? end_after(ahead_) : kNever; }

  bool schedule(i64 now) override {
    plan_.clear();
    const i64 budget = serve_running();
    if (plan_.preempted.empty()) waiting_pass(budget, now);
    settle(now);
    if (plan_.items.empty() && lazy_ == 0) {
      stalled_ = in_flight();
      return false;
    }
    Work work;
    work.tokens = work.requests = lazy_;
    work.decode_context = context_ + lazy_;
    add_items(&work);
    const i64 first = law_.sum(work);
    const i64 start = flights_ ? std::max(now, flight_[0].end) : now;
    Flight& flight = flight_[flights_++];
    flight.end = later(start, std::max<i64>(0, first));
    ++steps_;
    ++scheduled_;
    grow_to(scheduled_);
    context_ += lazy_;
    called_at_ = completed_;
    const bool left = let_leave();
    for (const Scheduled& item : plan_.items)
      if (item.samples) join_if_it_goes_on(item.request);
    filter_alone();
    flight.items.clear();
    flight.items.swap(plan_.items);
    if (flights_ == 2 && lazy_ > 0) open_window(first, left);
    return true;
  }

  void complete(i64 now, std::vector<Sampled>* sampled) override {
    if (ahead_ > 0) pass_window();
    ++completed_;
    note_end(now, now - last_completion_);
    last_completion_ = now;
    std::swap(flight_[0].items, passed_);
    std::swap(flight_[0], flight_[1]);
    --flights_;
    stalled_ = false;
    if (unfinished_) finish_lazy(sampled);
    for (const Scheduled& item : passed_) complete_item(item, sampled);
    if (!passed_.empty()) filter_alone();
    passed_.clear();
    if (unfinished_ == 0) gaps_.clear(completed_);
    if (pool_.caching() && sampled->size() > 1)
      std::sort(sampled->begin(), sampled->end(), [](const Sampled& a, const Sampled& b) {
        return a.request->order < b.request->order;
      });
  }

 private:
  struct Flight {
    i64 end = 0;
    std::vector<Scheduled> items;  // of requests that are served one by one
  };

  // --- blocks of lazy requests ---

  void grow_to(i64 counter) {
    if (lazy_ == 0) {
      growth_.held(counter);
    } else if (counter != grown_) {
      const i64 before = growth_.held(grown_);
      const i64 more = growth_.held(counter) - before;
      if (more > 0) pool_.take_nameless(more);
    }
    grown_ = counter;
  }

  bool fits(i64 others) {
    const i64 room = pool_.free() - others;
    if (room >= lazy_) return true;
    return room >= 0 && growth_.steps_within(growth_.held(scheduled_) + room, 1) == 1;
  }

  // --- lazy requests ---

  // `it` was sampled in the step just scheduled.
  void join_if_it_goes_on(Request* it) {
    const i32 sampled = it->outputs + it->unseen;
    if (sampled >= it->target) return;
    take_seat(it);
    it->lazy = true;
    it->offset = it->computed - scheduled_;
    it->joined = scheduled_;
    it->finish_key = scheduled_ + it->target - sampled;
    it->leave_key = it->finish_key + (it->limit > it->target);
    leaving_.add(it->leave_key, scheduled_, it->seat);
    ending_.add(it->finish_key, completed_, it->seat);
    growth_.join(it->offset);
    context_ += it->computed;
    ++lazy_;
    ++unfinished_;
  }

  // Take those whose last step is scheduled out of the sums.
  bool let_leave() {
    if (lazy_ == 0) return false;
    const i32 first = leaving_.take(scheduled_);
    for (i32 seat = first; seat != Calendar::kNone;) {
      const i32 next = leaving_.after(seat);
      leave(seats_[seat]);
      seat = next;
    }
    return first != Calendar::kNone;
  }

  void leave(Request* it) {
    it->computed = it->offset + scheduled_;
    it->blocks = pool_.blocks_of(it->computed);
    it->leave_key = -1;
    growth_.leave(it->offset);
    context_ -= it->computed;
    --lazy_;
  }

  // Tell it what it got in completed steps; it is lazy no more.
  void tell(Request* it) {
    if (it->leave_key >= 0) {
      leaving_.remove(it->leave_key, it->seat);
      leave(it);
    }
    it->lazy = false;
    --unfinished_;
    leave_seat(it, completed_, last_completion_);
  }

  // --- the end of a step ---

  void note_end(i64 tick, i64 gap) {
    if (unfinished_) gaps_.add(completed_, gap);
    if (gaps_.keeps_ends()) gaps_.add_end(tick);
  }

  void finish_lazy(std::vector<Sampled>* sampled) {
    for (i32 seat = ending_.take(completed_); seat != Calendar::kNone;) {
      const i32 next = ending_.after(seat);
      Request* it = seats_[seat];
      tell(it);
      it->in_system = false;
      running_.remove(it);
      sampled->push_back({it, true, true});
      seat = next;
    }
  }

  void complete_item(const Scheduled& item, std::vector<Sampled>* sampled) {
    Request* it = item.request;
    --it->flying;
    if (!item.samples || !it->in_system) {
      if (!it->in_system && it->flying == 0 && !it->away) forget(it);  // an overshoot
      return;
    }
    --it->unseen;
    const bool ended = ++it->outputs >= it->target;
    if (ended) {
      it->in_system = false;
      if (it->runs) running_.remove(it); else waiting_.remove(it);
      std::size_t kept = 0;
      for (Request* other : alone_)
        if (other != it) alone_[kept++] = other;
      alone_.resize(kept);
    } else if (it->lazy) {
      pool_.name(it, it->tokens() - 1);
      named_later_.push_back(it);
    } else if (it->blocks) {
      pool_.name(it, it->computed - it->unseen);
    }
    sampled->push_back({it, ended, false});
  }

  void filter_alone() {
    std::size_t kept = 0;
    for (Request* it : alone_)
      if (it->runs && !it->lazy && !it->surely_done()) alone_[kept++] = it;
    alone_.resize(kept);
  }

  // --- the start of a step ---

  i64 serve_running() {
    const i64 budget = options_.max_num_batched_tokens;
    i64 tokens = lazy_, blocks = 0;
    for (const Request* it : alone_) tokens += piece(it->missing());
    i64 cut = 0;  // off the last piece
    if (tokens > budget) {
      if (alone_.size() > 1 || alone_[0] != running_.last()) return serve_one_by_one();
      cut = tokens - budget;
      tokens = budget;
    }
    for (const Request* it : alone_)
      blocks += pool_.needed(*it, it->computed + piece(it->missing()) - cut);
    if (!fits(blocks)) return serve_one_by_one();
    for (Request* it : alone_) {
      const i64 fresh = piece(it->missing()) - cut;
      pool_.take(it, it->computed + fresh);
      give(it, fresh);
    }
    for (Request* it : named_later_)  // as its next token is given
      if (it->lazy && it->leave_key >= 0) pool_.name(it, it->tokens());
    named_later_.clear();
    if (lazy_) grow_to(scheduled_ + 1);
    return budget - tokens;
  }

  // Tell all lazy requests their state, write their part of steps in flight out, and let the
  // scheduler's own pass run.
  i64 serve_one_by_one() {
    named_later_.clear();
    for (Request* it = running_.first(); it; it = it->after) {
      if (!it->lazy) continue;
      const i64 last = it->leave_key >= 0 ? scheduled_ : it->finish_key + (it->limit > it->target);
      const i64 flying = std::min(last, scheduled_) - std::max(it->joined, completed_);
      const i64 known = it->outputs + std::max<i64>(0, called_at_ - it->joined);
      const bool given = it->leave_key >= 0 && scheduled_ > it->joined && called_at_ >= it->joined;
      ending_.remove(it->finish_key, it->seat);
      tell(it);
      if (pool_.caching()) {
        if (given) pool_.name(it, it->prompt + known);
        if (completed_ >= it->joined) pool_.name(it, it->tokens() - 1);
      }
      if (flying > 0) {  // there is one step in flight at most
        flight_[0].items.push_back({it, 1, it->computed - 1, true, true});
        ++it->flying;
        ++it->unseen;
      }
    }
    const i64 budget = running_pass();
    alone_.clear();
    for (Request* it = running_.first(); it; it = it->after) alone_.push_back(it);
    filter_alone();
    return budget;
  }

  // --- windows ---

  // Tick at which the first step in flight, or the one `skipped` later, completes.
  i64 end_after(i64 skipped) const {
    if (skipped == 0) return flight_[0].end;
    return later(flight_[1].end, run_.ticks(skipped - 1));
  }

  void open_window(i64 first, bool left) {
    const i64 slope = law_.c_k * lazy_;
    if (!flight_[0].items.empty() || !flight_[1].items.empty() || !plan_.preempted.empty()) return;
    if (slope < 0 || first < 1) return;
    const bool waits = !waiting_.empty() || loaded_count_ > 0;
    if (left && waits) return;  // the budget grew
    // the next step to be scheduled; the one before it ends at flight_[1].end
    Work work;
    work.tokens = work.requests = lazy_;
    work.decode_context = context_ + lazy_;
    const i64 next = law_.sum(work);
    if (next < 1) return;
    run_ = DecodeRun(next, slope);
    i64 steps = std::min(leaving_.distance(scheduled_), ending_.distance(completed_) - 1);
    if (steps < 1) return;
    steps = within_blocks(run_.within_64_bits(steps));
    if (steps > 0 && waits) steps = before_refusal(steps);
    ahead_ = steps;
  }

  i64 within_blocks(i64 steps) {
    const i64 room = pool_.free();
    if (lazy_ * (steps / pool_.block_size() + 1) <= room) return steps;
    return growth_.steps_within(growth_.held(scheduled_) + room, steps);
  }

  i64 before_refusal(i64 steps) {
    const bool deadlines = options_.policy == Policy::kDeadline;
    const bool uncut = !options_.chunked && pool_.caching();
    if (!deadlines && !uncut) return steps;
    const Request* head = next_waiting();
    if (!head || lazy_ >= options_.max_num_batched_tokens ||
        running_.size() == options_.max_num_seqs)
      return steps;  // nobody is looked at
    if (uncut && piece(head->tokens()) > options_.max_num_batched_tokens) return 0;
    const i64 tick = hopeless_from(*head);
    return tick == kNever ? steps : completions_before(tick, steps);
  }

  // How many of the next `limit` completions come before `tick`.
  i64 completions_before(i64 tick, i64 limit) const {
    if (limit == 0 || flight_[0].end >= tick) return 0;
    if (limit == 1 || flight_[1].end >= tick) return 1;
    const i64 span = tick - flight_[1].end;
    const i64 more = run_.steps_to_cover(span, limit);
    return std::min(limit, 1 + more);
  }

  void pass_window() {
    const i64 steps = ahead_, base = flight_[1].end;
    ahead_ = 0;
    const i64 last = flight_[0].end, gap = last - last_completion_;
    grow_to(scheduled_ + steps);
    ++completed_;
    note_end(last, gap);
    last_completion_ = last;
    for (i64 i = 0; gaps_.keeps_ends() && i < steps - 1; ++i) gaps_.add_end(base + run_.ticks(i));
    if (steps > 1) {
      completed_ += steps - 1;
      // the second step in flight, and those after it, each longer than the one before
      gaps_.add(completed_ - (steps - 2), base - last);
      if (steps > 2) gaps_.add(completed_, run_.duration(steps - 3));
      last_completion_ = base + run_.ticks(steps - 2);
    }
    flight_[0].end = base + run_.ticks(steps - 1);
    flight_[1].end = later(base, run_.ticks(steps));
    scheduled_ += steps;
    called_at_ += steps;
    steps_ += steps;
    context_ += steps * lazy_;
    let_leave();
  }

  bool may_enter(const Request& it) const {
    const i64 budget = options_.max_num_batched_tokens - lazy_;
    if (running_.size() == options_.max_num_seqs || budget <= 0) return false;
    if (pool_.caching() || options_.policy == Policy::kDeadline) return true;
    i64 tokens = it.tokens();
    if (!it.remote && !options_.reserve_full)
      tokens = it.computed + std::min(piece(tokens - it.computed), budget);
    return pool_.needed(it, tokens) + options_.watermark_blocks <= pool_.free();
  }

  void cut(i64 now, bool scheduled) {
    ahead_ = completions_before(now + scheduled, ahead_);
  }

  Flight flight_[2];
  i64 flights_ = 0;
  bool stalled_ = false;
  std::vector<Scheduled> passed_;
  std::vector<Request*> named_later_;  // lazy ones of which a token became known
  Calendar leaving_, ending_;
  DecodeBlocks<0> growth_;
  i64 scheduled_ = 0, completed_ = 0;  // steps
  i64 called_at_ = 0;  // completed_ when the last step was scheduled
  i64 grown_ = 0;
  i64 lazy_ = 0;        // in the sums
  i64 unfinished_ = 0;  // lazy, the ones that left the sums included
  i64 context_ = 0;
  DecodeRun run_;
  i64 ahead_ = 0;  // completions, each with a schedule, that are skipped
  i64 last_completion_ = 0;
};

}  // namespace planner::engine
