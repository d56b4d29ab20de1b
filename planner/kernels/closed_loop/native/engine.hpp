// One engine rank under a benchmark client, step by step, for three families of schedulers.
//
// Every decoding request advances by one token in each step that decodes, so requests are
// keyed by a global decode counter: a calendar of finishes and two sums replace a walk over the
// batch. Runs of pure decode steps during which nothing can arrive, leave or overflow are
// summed in closed form. planner/kernels/closed_loop/plain.py does the same operations in the
// same order; times are doubles, and both agree to the bit where products are not fused.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

namespace planner::bench {

using i64 = std::int64_t;
using i32 = std::int32_t;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Law {
  const double* knots;   // tokens, ascending
  const double* step_s;  // L at the knots
  i64 count;
  double slope;    // beyond the last knot, s per token
  double square;   // c_X
  double context;  // c_K

  double tokens_s(double n) const {
    if (n <= knots[0]) return step_s[0];
    if (n >= knots[count - 1]) return step_s[count - 1] + slope * (n - knots[count - 1]);
    const i64 j = std::lower_bound(knots, knots + count, n) - knots;
    const double share = (n - knots[j - 1]) / (knots[j] - knots[j - 1]);
    return step_s[j - 1] + (step_s[j] - step_s[j - 1]) * share;
  }
};

enum Scheduler : int { kMixed = 0, kPrefillFirst = 1, kMixedWhole = 2 };

struct Engine {
  int scheduler;
  i64 max_tokens, max_seqs, kv_tokens;
  double reserved_output;  // share of the output for which cache is held back at admission
  i64 poll_steps;          // decode steps between two looks at the inbox
  int late_steps;          // 1: an arrival is seen one step late
  double host_step_s, host_sequence_s, host_prefill_s;
  double front_request_s, front_token_s;  // serial work per request before it is queued
  double path_in_s, path_out_s;
  i64 cached_tokens;  // leading tokens of every prompt that need not be computed
  double mixed_context;  // factor on the context term in steps that also compute prompts
  double cached_reread;  // share of the cached prefix that each further request reads again
};

struct Traffic {
  i64 count, clients;  // clients 0: open loop, sent_s is given
  const i32 *prompt, *output;
  double *sent_s, *first_s, *finish_s;
};

struct Totals {
  i64 steps = 0, preemptions = 0;
};

class Rank {
 public:
  Rank(const Law& law, const Engine& engine, const Traffic& traffic)
      : law_(law), engine_(engine), it_(traffic) {
    i64 longest = 1;
    for (i64 i = 0; i < it_.count; ++i) longest = std::max<i64>(longest, it_.output[i]);
    calendar_.resize(static_cast<std::size_t>(longest) + 1);
    const auto n = static_cast<std::size_t>(it_.count);
    ready_.resize(n);
    due_.assign(n, -1);
    made_.assign(n, 0);
  }

  Totals run() {
    const i64 initial = it_.clients > 0 ? std::min(it_.clients, it_.count) : it_.count;
    for (i64 i = 0; i < initial; ++i) {
      if (it_.clients > 0) it_.sent_s[i] = 0.0;
      send(i);
    }
    while (finished_ < it_.count) step();
    return totals_;
  }

 private:
  // The client's request passes the serial front end and reaches the engine's inbox.
  void send(i64 i) {
    const double reached = std::max(front_free_, it_.sent_s[i] + engine_.path_in_s);
    front_free_ = reached + engine_.front_request_s + engine_.front_token_s * it_.prompt[i];
    ready_[i] = front_free_;
    ++sent_;
  }

  bool waiting() const { return !returned_.empty() || arrived_ < visible_; }
  i64 head() const { return returned_.empty() ? arrived_ : returned_.front(); }
  i64 running() const {
    return decoding_ + (partial_ >= 0 ? 1 : 0) + static_cast<i64>(done_.size());
  }
  i64 needed(i64 i) const { return it_.prompt[i] + made_[i]; }
  // A cached prefix is one for all: it is held once, and read once in a step, but for a share.
  i64 shared(i64 i) const { return std::min<i64>(engine_.cached_tokens, it_.prompt[i] - 1); }
  i64 own(i64 i) const { return needed(i) - shared(i); }
  i64 reserve(i64 i) const {
    return it_.prompt[i] - shared(i) +
           static_cast<i64>(engine_.reserved_output * it_.output[i]);
  }
  double context() const {
    const double again = engine_.cached_reread * static_cast<double>(decoding_ - 1);
    return static_cast<double>(context_) +
           static_cast<double>(engine_.cached_tokens) * (1.0 + again);
  }
  bool admissible() const {
    if (!waiting()) return false;
    if (running() == 0) return true;
    const i64 need = std::max(reserve(head()), own(head()));
    return running() < engine_.max_seqs && std::max(reserved_, held_) + need <= engine_.kv_tokens;
  }

  void look() {
    const bool idle = running() == 0;
    if (idle) {
      if (!waiting() && ready_[visible_] > now_) now_ = ready_[visible_];
      before_ = now_;
    } else if (since_look_ < engine_.poll_steps) {
      return;
    }
    const double horizon = engine_.late_steps == 0 ? now_ : before_;
    while (visible_ < sent_ && ready_[visible_] <= horizon) ++visible_;
    since_look_ = 0;
  }

  void step() {
    look();
    preempted_ = false;
    bool prefills = partial_ >= 0 || admissible();
    const bool decodes = decoding_ > 0 && !(engine_.scheduler == kPrefillFirst && prefills);
    if (decodes && make_room()) prefills = partial_ >= 0;
    if (!prefills) {
      coast();
      return;
    }
    i64 tokens = decodes ? decoding_ : 0;
    double squares = 0.0;
    if (partial_ >= 0) compute(tokens, squares);
    while (tokens < engine_.max_tokens && partial_ < 0 && !preempted_ && admissible()) {
      const i64 i = head();
      if (engine_.scheduler == kMixedWhole && tokens > 0 && needed(i) <= engine_.max_tokens &&
          needed(i) > engine_.max_tokens - tokens)
        break;
      if (returned_.empty()) ++arrived_;
      else returned_.pop_front();
      reserved_ += reserve(i);
      held_ += own(i);
      partial_ = i;
      computed_ = shared(i);
      compute(tokens, squares);
    }
    before_ = now_;
    now_ += law_.tokens_s(static_cast<double>(tokens)) + law_.square * squares +
            (decodes ? law_.context * engine_.mixed_context * context() : 0.0) +
            engine_.host_step_s +
            engine_.host_sequence_s * static_cast<double>(running()) + engine_.host_prefill_s;
    ++totals_.steps;
    since_look_ = engine_.poll_steps;
    if (decodes) advance();
    for (const i64 i : done_) first_token(i);
    done_.clear();
  }

  // One chunk of the request in prefill, as large as the step's budget leaves.
  void compute(i64& tokens, double& squares) {
    const i64 chunk = std::min(engine_.max_tokens - tokens, needed(partial_) - computed_);
    if (chunk <= 0) return;
    squares += static_cast<double>(chunk) *
               (static_cast<double>(computed_) + 0.5 * static_cast<double>(chunk));
    computed_ += chunk;
    tokens += chunk;
    if (computed_ < needed(partial_)) return;
    done_.push_back(partial_);
    partial_ = -1;
  }

  void first_token(i64 i) {
    if (made_[i] == 0) it_.first_s[i] = now_;
    ++made_[i];
    ++held_;
    if (made_[i] >= it_.output[i]) {
      leave(i);
      return;
    }
    ++decoding_;
    context_ += own(i);
    due_[i] = counter_ + it_.output[i] - made_[i];
    bucket(due_[i]).push_back(i);
    order_.push_back(i);
  }

  // Decode steps until somebody finishes, arrives or finds the cache full.
  void coast() {
    const double fixed = law_.tokens_s(static_cast<double>(decoding_)) + engine_.host_step_s +
                         engine_.host_sequence_s * static_cast<double>(decoding_);
    const i64 before = finished_;
    do {
      before_ = now_;
      now_ += fixed + law_.context * context();
      ++totals_.steps;
      ++since_look_;
      advance();
    } while (finished_ == before && held_ + decoding_ <= engine_.kv_tokens && !waiting() &&
             (visible_ == sent_ || ready_[visible_] > now_));
  }

  std::vector<i64>& bucket(i64 counter) {
    return calendar_[static_cast<std::size_t>(counter) % calendar_.size()];
  }

  // Every decoding request has made one more token; those that are due leave.
  void advance() {
    ++counter_;
    context_ += decoding_;
    held_ += decoding_;
    auto& due = bucket(counter_);
    for (const i64 i : due) {
      if (due_[i] != counter_) continue;  // it was preempted since
      made_[i] = it_.output[i];
      due_[i] = -1;
      --decoding_;
      context_ -= own(i);
      leave(i);
    }
    due.clear();
  }

  void leave(i64 i) {
    it_.finish_s[i] = now_;
    ++finished_;
    reserved_ -= reserve(i);
    held_ -= own(i);
    if (it_.clients > 0 && sent_ < it_.count) {
      it_.sent_s[sent_] = now_ + engine_.path_out_s;
      send(sent_);
    }
  }

  // Preempts the last admitted until each decoding request has room for its next token.
  bool make_room() {
    while (held_ + decoding_ > engine_.kv_tokens && running() > 1) {
      preempted_ = true;
      ++totals_.preemptions;
      i64 last = partial_;
      if (last >= 0) {
        partial_ = -1;
      } else {
        while (due_[order_.back()] < 0) order_.pop_back();
        last = order_.back();
        order_.pop_back();
        made_[last] = it_.output[last] - (due_[last] - counter_);
        due_[last] = -1;
        --decoding_;
        context_ -= own(last);
      }
      reserved_ -= reserve(last);
      held_ -= own(last);
      returned_.push_front(last);
    }
    return preempted_;
  }

  Law law_;
  Engine engine_;
  Traffic it_;
  Totals totals_;
  double now_ = 0.0, before_ = 0.0, front_free_ = 0.0;
  i64 sent_ = 0, visible_ = 0, arrived_ = 0, finished_ = 0;  // prefixes of the requests
  i64 counter_ = 0, decoding_ = 0, context_ = 0;
  i64 reserved_ = 0, held_ = 0;  // tokens of cache promised, and filled or being filled
  i64 partial_ = -1, computed_ = 0, since_look_ = 0;
  bool preempted_ = false;
  std::vector<double> ready_;
  std::vector<i64> due_, made_;               // by request
  std::vector<std::vector<i64>> calendar_;    // by decode counter
  std::vector<i64> order_, done_;             // decoding, in order of admission; just prefilled
  std::deque<i64> returned_;                  // preempted, ahead of all that wait
};

}  // namespace planner::bench
