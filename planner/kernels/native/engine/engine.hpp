// What all engines share: queues, blocks, and the passes of the V1 scheduler.
//
// A request is in exactly one of waiting (not admitted, or preempted), parked (holds blocks
// into which its KV is read) and running (admitted, in order of admission).
#pragma once

#include <unordered_map>
#include <vector>

#include "block_pool.hpp"
#include "request.hpp"
#include "step_law.hpp"
#include "waiting.hpp"

namespace planner::engine {

// A request's part of one step.
struct Scheduled {
  Request* request;
  i64 fresh, before;  // tokens computed in the step, and before it
  bool decode;        // one token against the context, not a prefill chunk
  bool samples;       // the step brings an output token
};

struct Load {
  Request* request;
  i64 tokens;
};

// What one call of a scheduler decided.
struct Plan {
  std::vector<Scheduled> items;
  std::vector<Request*> preempted;
  std::vector<Load> loads;     // remote KV that is read from now on
  std::vector<Request*> hopeless, oversized;
  bool lacks_blocks = false;  // for a running request, or for the head of the queue

  void clear() {
    items.clear();
    preempted.clear();
    loads.clear();
    hopeless.clear();
    oversized.clear();
    lacks_blocks = false;
  }
};

// A request that got a token at the end of a step, or that ended there.
struct Sampled {
  Request* request;
  bool ended;
  bool told;  // the engine noted the token itself
};

class Engine {
 public:
  Engine(const Options& options, const Law& law, const Traffic& traffic, Columns& columns)
      : options_(options), law_(law), traffic_(traffic), columns_(columns),
        pool_(options.block_size, options.usable_blocks, options.prefix_caching, traffic.names),
        waiting_(options.policy) {}
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Options& options() const { return options_; }
  BlockPool& pool() { return pool_; }
  i64 steps() const { return steps_; }
  const Plan& plan() const { return plan_; }

  // Requests on this engine, neither finished nor dropped.
  i64 outstanding() const {
    return waiting_.size() + static_cast<i64>(parked_.size()) + running_.size();
  }

  // Whether the KV of a request with that many outputs fits an empty engine. The KV of the
  // last token is never computed.
  bool can_hold(i64 prompt, i64 outputs) const {
    return pool_.blocks_of(prompt + outputs - 1) <= pool_.usable();
  }

  // Whether the first piece of a prompt fits a step, if it must not be cut.
  bool can_prefill(i64 prompt) const {
    const bool v1 = options_.kind == Kind::kV1;
    if (options_.kind == Kind::kSarathi || (v1 && options_.chunked)) return true;
    return (v1 ? piece(prompt) : prompt) <= options_.max_num_batched_tokens;
  }

  Request* new_request(i64 rank, i64 now, i32 target, i32 limit) {
    Request* it = arena_.take();
    it->rank = static_cast<i32>(rank);
    it->prompt = traffic_.prompt[rank];
    it->target = target;
    it->limit = limit;
    it->arrival = now;
    if (traffic_.deadline) it->deadline = traffic_.deadline[rank];
    if (options_.policy == Policy::kPriority) it->key = traffic_.priority ? traffic_.priority[rank] : 0;
    if (options_.policy == Policy::kDeadline) it->key = it->deadline;
    it->shared = shared_blocks(rank);
    if (it->shared) it->prefix = traffic_.prefix_name + traffic_.prefix_start[rank];
    return it;
  }

  // Leading blocks of a prompt that bear shared names here.
  i32 shared_blocks(i64 rank) const {
    if (!traffic_.prefix_start || !options_.prefix_caching) return 0;
    return static_cast<i32>(
        std::min(traffic_.names_of(rank), traffic_.prompt[rank] / options_.block_size));
  }

  void forget(Request* it) { arena_.give_back(it); }

  // Take back the blocks of a request that has left.
  void release(Request* it) { pool_.release(it, false); }

  // Queue a request; `scheduled`: this instant's steps are scheduled already.
  virtual void enqueue(Request* it, i64 now, bool scheduled) = 0;
  // The KV of a parked request has come.
  virtual void loaded(Request* it, i64 now, bool scheduled) = 0;
  // Let blocks be as the schedules before `now` left them.
  virtual void look(i64 now, bool scheduled) = 0;

  virtual bool can_schedule() const = 0;
  virtual bool in_flight() const = 0;
  // Call the scheduler once; plan() tells what it decided. Returns whether there is a step.
  virtual bool schedule(i64 now) = 0;
  virtual i64 last_end() const = 0;       // of the step just scheduled
  virtual void stretch(i64 end) = 0;      // let it end later
  virtual i64 next_end() const = 0;       // of the oldest step; kNever: none
  // Apply the oldest step; adds those that got a token, in the step's order.
  virtual void complete(i64 now, std::vector<Sampled>* sampled) = 0;

 protected:
  i64 piece(i64 missing) const {
    return options_.threshold > 0 ? std::min(missing, options_.threshold) : missing;
  }

  i64 watermark() const { return running_.size() ? options_.watermark_blocks : 0; }

  // Put tokens whose blocks are taken into the step. Full blocks can be hit from here on.
  void give(Request* it, i64 fresh) {
    const i64 after = it->computed + fresh;
    pool_.name(it, std::min(after, it->tokens()));
    plan_.items.push_back({it, fresh, it->computed, it->decoding, fresh == it->missing()});
  }

  void preempt(Request* it) {
    running_.remove(it);
    pool_.release(it, true);
    it->computed = 0;
    it->decoding = false;
    ++it->preemptions;
    ++columns_.preemptions[it->rank];
    waiting_.put_back(it);
    plan_.preempted.push_back(it);
    plan_.lacks_blocks = true;
  }

  // Move the requests of a step on, as if it were computed.
  void settle(i64 now) {
    for (const Scheduled& item : plan_.items) {
      Request* it = item.request;
      it->computed += item.fresh;
      ++it->flying;
      if (item.samples) {
        it->decoding = true;
        it->unseen += options_.async;
      }
      if (!it->told) first_scheduled(it, now);
    }
    for (Request* it : plan_.hopeless) it->in_system = false;
    for (Request* it : plan_.oversized) it->in_system = false;
  }

  void first_scheduled(Request* it, i64 now) {
    it->told = true;
    // a decode-side request has a column of its own
    i64* column = second_leg_ ? columns_.decode_first_scheduled : columns_.first_scheduled;
    column[it->rank] = now;
  }

  Work work_of_items() const {
    Work work;
    add_items(&work);
    return work;
  }

  void add_items(Work* work) const {
    for (const Scheduled& item : plan_.items) {
      if (item.decode) work->add_decode(item.before); else work->add_chunk(item.fresh, item.before);
    }
  }

  // --- V1: the RUNNING pass, request by request ---

  // Serves running requests in order of admission; returns the budget left.
  i64 running_pass() {
    i64 budget = options_.max_num_batched_tokens;
    Request* it = running_.first();
    while (it && budget > 0) {
      const i64 fresh = it->surely_done() ? 0 : std::min(piece(it->missing()), budget);
      if (fresh == 0) {  // all its tokens are in flight: skipped, not a stop
        it = it->after;
        continue;
      }
      // Positions are those of a list: a victim before this request that was not scheduled
      // shifts it, and the pass goes by one position.
      i64 shifts = 0;
      while (pool_.needed(*it, it->computed + fresh) > pool_.free()) {
        Request* victim = choose_victim();
        if (take_back(victim, &budget) == false && victim->order < it->order) ++shifts;
        preempt(victim);
        if (victim == it) return budget;
      }
      pool_.take(it, it->computed + fresh);
      give(it, fresh);
      budget -= fresh;
      for (++shifts; shifts > 0 && it; --shifts) it = it->after;
    }
    return budget;
  }

  // --- V1: the WAITING pass ---

  // Admits strictly from the head, while budget, slots and blocks last.
  void waiting_pass(i64 budget, i64 now) {
    while (budget > 0 && running_.size() < options_.max_num_seqs) {
      Request* it = next_waiting();
      if (!it || it->flying > 0) return;
      if (is_hopeless(*it, now)) {
        waiting_.pop();
        plan_.hopeless.push_back(it);
      } else if (it->remote) {
        if (!start_load(it)) return;
      } else {
        const i64 given = admit(it, budget);
        if (given < 0) return;
        budget -= given;
      }
    }
  }

  // The first parked one whose KV is here, else the head.
  Request* next_waiting() const {
    if (loaded_count_ > 0) {
      for (Request* it : parked_)
        if (it->loaded) return it;
    }
    return waiting_.empty() ? nullptr : waiting_.head();
  }

  // First tick at which even an empty engine would miss the deadline; kNever: never.
  i64 hopeless_from(const Request& it) {
    const bool fresh = it.outputs == 0 && it.computed == 0 && !it.remote && !it.loaded;
    if (options_.policy != Policy::kDeadline || it.deadline == kNever || !fresh) return kNever;
    return it.deadline - alone(it.tokens()) + 1;
  }

  bool is_hopeless(const Request& it, i64 now) {
    return options_.policy == Policy::kDeadline && now >= hopeless_from(it);
  }

  // Whether running requests that do not decode still need blocks: those stay free.
  virtual i64 reserved() const {
    i64 sum = 0;
    for (const Request* it = running_.first(); it; it = it->after)
      if (!it->decoding) sum += pool_.needed(*it, it->tokens());
    return sum;
  }

  bool start_load(Request* it) {
    pool_.lookup(*it, &hits_);
    const i64 need = pool_.needed(*it, it->tokens(), hits_) + watermark();
    if (need > pool_.free() - reserved()) return lack_blocks();
    waiting_.pop();
    pool_.take(it, it->tokens(), hits_);
    const i64 cached = static_cast<i64>(hits_.size()) * pool_.block_size();
    it->cache_told = true;
    it->computed = it->tokens();
    it->remote = false;
    parked_.push_back(it);
    plan_.loads.push_back({it, it->tokens() - cached});
    return true;
  }

  // Admit a request with its first piece; returns the tokens given, -1 if it must wait. One
  // that no step can hold is dropped, and 0 returned.
  i64 admit(Request* it, i64 budget) {
    if (it->loaded && !it->decoding) {  // its KV has come: name it, redo one token
      pool_.name(it, it->computed);
      it->computed = it->tokens() - 1;
      it->decoding = true;
    }
    hits_.clear();
    if (it->computed == 0) pool_.lookup(*it, &hits_);
    i64 cached = it->computed + static_cast<i64>(hits_.size()) * pool_.block_size();
    if (it->computed == 0 && traffic_.cached)
      cached = std::max<i64>(cached, traffic_.cached[it->rank]);
    i64 fresh = piece(it->tokens() - cached);
    if (!options_.chunked && fresh > budget) {
      if (fresh <= options_.max_num_batched_tokens) return -1;
      waiting_.pop();
      plan_.oversized.push_back(it);
      return 0;
    }
    fresh = std::min(fresh, budget);
    const i64 least = options_.reserve_full ? it->tokens() : cached + fresh;
    const i64 need = pool_.needed(*it, std::max(least, cached + fresh), hits_) + watermark();
    if (need > pool_.free()) {
      lack_blocks();
      return -1;
    }
    if (it->loaded) {
      parked_.erase(std::find(parked_.begin(), parked_.end(), it));
      it->loaded = false;
      --loaded_count_;
    } else {
      waiting_.pop();
    }
    pool_.take(it, cached + fresh, hits_);
    it->computed = cached;
    if (!it->cache_told) {
      it->cache_told = true;
      if (!second_leg_) columns_.cached_tokens[it->rank] = static_cast<i32>(cached);
    }
    running_.append(it);
    give(it, fresh);
    admitted(it);
    return fresh;
  }

  virtual void admitted(Request*) {}

  bool lack_blocks() {
    plan_.lacks_blocks = true;
    return false;
  }

  const Options options_;
  const Law& law_;
  const Traffic& traffic_;
  Columns& columns_;
  BlockPool pool_;
  Waiting waiting_;
  std::vector<Request*> parked_;
  i64 loaded_count_ = 0;
  Running running_;
  Plan plan_;
  i64 steps_ = 0;

 public:
  bool second_leg_ = false;  // on the decode side of a disaggregated fleet

 private:
  i64 alone(i64 tokens) {
    const auto found = alone_ticks_.find(tokens);
    if (found != alone_ticks_.end()) return found->second;
    return alone_ticks_[tokens] = law_.alone(tokens, options_.max_num_batched_tokens);
  }

  // The last admitted, or the least important; equals go by rank, so that they cannot take turns.
  Request* choose_victim() const {
    if (options_.policy == Policy::kFcfs) return running_.last();
    Request* worst = running_.first();
    for (Request* it = worst->after; it; it = it->after)
      if (ranks_before_by_rank(*worst, *it)) worst = it;
    return worst;
  }

  // Take a victim that is scheduled in this very step back out of it.
  bool take_back(const Request* victim, i64* budget) {
    for (auto item = plan_.items.begin(); item != plan_.items.end(); ++item) {
      if (item->request != victim) continue;
      *budget += item->fresh;
      plan_.items.erase(item);
      return true;
    }
    return false;
  }

  Arena arena_;
  std::vector<i32> hits_;
  std::unordered_map<i64, i64> alone_ticks_;
};

}  // namespace planner::engine
