// A pool under a stream of requests without end: counts, sums and histograms, no records.
//
// Time. Each chunk of arrivals counts its times from the last arrival of the chunk before, and
// after each chunk all times in the pool are shifted to that zero. So 64 bits bound how
// long one request may stay, not how long the stream may last.
#pragma once

#include <algorithm>
#include <vector>

#include "pool.hpp"

namespace planner {

// A sum that may outgrow 64 bits: high * 2^32 + low.
struct Wide {
  i64 high = 0, low = 0;

  void add(i64 x) {
    high += x >> 32;
    low += x & 0xffffffff;
  }
  void carry() {  // due at least once in 2^31 additions
    high += low >> 32;
    low &= 0xffffffff;
  }
};

// Bins of relative width 1/64 or less, exact below 128: a bin's middle is within 0.8 % of all
// that is in it.
class Histogram {
 public:
  static constexpr i64 kBins = 64 * 57 + 64;

  Histogram() : bins_(kBins, 0) {}
  void add(i64 value) { ++bins_[bin(value)]; }
  const std::vector<i64>& bins() const { return bins_; }

 private:
  static i64 bin(i64 value) {  // value >= 0
    int halvings = 0;
    for (int step = 32; step > 0; step /= 2)
      if ((value >> halvings) >= (i64{128} << (step - 1))) halvings += step;
    return 64 * halvings + (value >> halvings);
  }

  std::vector<i64> bins_;
};

struct Deadlines {
  i64 ttft, tpot, context;  // context: a longer request, prompt and output, is refused: a miss
  i64 e2e = kNever, max_itl = kNever;
  std::vector<i64> edges = {};       // longest prompts of the TTFT buckets, ascending
  std::vector<i64> edge_ttft = {};   // their deadlines; `ttft` is for longer prompts

  i64 ttft_of(i64 prompt) const {
    const auto edge = std::lower_bound(edges.begin(), edges.end(), prompt);
    return edge == edges.end() ? ttft : edge_ttft[edge - edges.begin()];
  }
};

// Compliant; late in TTFT, in TPOT, in both; in time with both and late by another deadline;
// too long.
constexpr int kOutcomes = 6;
constexpr int kStages = 8;

struct ClassTally {
  i64 offered = 0, rejected = 0;
  i64 outcomes[kOutcomes] = {};
  i64 output_tokens = 0, preemptions = 0;
  Wide stages[kOutcomes][kStages];
  Histogram ttft, tpot;
};

// kWithGaps: some class has a deadline on the time between two tokens.
template <bool kWithGaps>
class Tally {
 public:
  static constexpr bool kGaps = kWithGaps;

  Tally(const StepLaw& law, const std::vector<Deadlines>& deadlines)
      : law_(law), deadlines_(deadlines), classes_(deadlines.size()) {}

  void finished(const Sequence& it, i64 time, i32, const TokenGaps& gaps) {
    count(it, time, gaps.longest());
  }
  void finished(const Sequence& it, i64 time, i32) { count(it, time, 0); }

  void offered(i32 kind) { ++classes_[kind].offered; }
  void rejected(const Request& request) { ++classes_[request.id].rejected; }

  void carry() {
    for (ClassTally& tally : classes_)
      for (auto& row : tally.stages)
        for (Wide& sum : row) sum.carry();
  }

  i64 take_last_finish() {  // since the last call; kNone: nobody
    const i64 last = last_finish_;
    last_finish_ = kNone;
    return last;
  }

  const std::vector<ClassTally>& classes() const { return classes_; }

  static constexpr i64 kNone = std::numeric_limits<i64>::min();

 private:
  void count(const Sequence& it, i64 time, i64 longest_gap) {
    const Request& request = it.request;  // its id is its class
    ClassTally& tally = classes_[request.id];
    const Deadlines& due = deadlines_[request.id];
    const i64 ttft = it.first_token - request.arrival;
    tally.ttft.add(ttft);
    int outcome = ttft > due.ttft_of(request.prompt) ? 1 : 0;
    if (request.output > 1) {
      const i64 steps = i64{request.output} - 1, decode = time - it.first_token;
      const i64 tpot = decode / steps;
      tally.tpot.add(tpot);
      if (tpot > due.tpot || (tpot == due.tpot && decode % steps)) outcome += 2;
    }
    if (outcome == 0 && (time - request.arrival > due.e2e || longest_gap > due.max_itl))
      outcome = 4;
    if (i64{request.prompt} + request.output > due.context) outcome = 5;
    ++tally.outcomes[outcome];
    tally.output_tokens += request.output;
    tally.preemptions += it.preemptions;
    const Stages s = stages_of(law_, it, time);
    const i64 parts[kStages] = {s.queue,       s.block_wait,   s.prefill_own,  s.prefill_stretch,
                                s.decode_solo, s.decode_batch, s.decode_stall, s.preempted};
    for (int i = 0; i < kStages; ++i) tally.stages[outcome][i].add(parts[i]);
    last_finish_ = std::max(last_finish_, time);
  }

  const StepLaw law_;
  const std::vector<Deadlines> deadlines_;
  std::vector<ClassTally> classes_;
  i64 last_finish_ = kNone;
};

// How many waited when every so-manieth request came. Full, it forgets every second
// sample and from then on takes half as many.
class Backlog {
 public:
  static constexpr i64 kMost = 1024;

  i64 until_next(i64 arrived) const {
    const i64 past = arrived % stride_;
    return past ? stride_ - past : 0;
  }

  void add(i64 queued) {
    if (static_cast<i64>(samples_.size()) == kMost) {
      for (i64 i = 0; i < kMost / 2; ++i) samples_[i] = samples_[2 * i];
      samples_.resize(kMost / 2);
      stride_ *= 2;  // the sample at hand is the kMost-th old stride: an even one
    }
    samples_.push_back(queued);
  }

  i64 stride() const { return stride_; }
  const std::vector<i64>& samples() const { return samples_; }

 private:
  i64 stride_ = 1;
  std::vector<i64> samples_;
};

struct Chunk {
  i64 count = 0;
  const i64* arrival = nullptr;
  const i32 *prompt = nullptr, *output = nullptr, *kind = nullptr;

  Request operator()(i64 i) const { return Request{arrival[i], kind[i], prompt[i], output[i]}; }
};

template <int kBlockSize, bool kWithGaps>
class Stream {
 public:
  using Books = Tally<kWithGaps>;

  Stream(const StepLaw& law, const Limits& limits, i64 replicas, Router router,
         const std::vector<Deadlines>& deadlines)
      : tally_(law, deadlines), pool_(law, limits, replicas, router, &tally_) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // False: the clock ran out.
  bool push(const Chunk& chunk) {
    if (chunk.count == 0) return true;
    for (i64 i = 0; i < chunk.count; ++i) tally_.offered(chunk.kind[i]);
    for (i64 i = 0; i < chunk.count;) {
      if (backlog_.until_next(offered_) == 0) {
        pool_.advance(chunk.arrival[i]);
        backlog_.add(pool_.queued());
      }
      const i64 to = std::min(chunk.count, i + 1 + backlog_.until_next(offered_ + 1));
      pool_.push_all(i, to, chunk);
      offered_ += to - i;
      i = to;
    }
    const i64 zero = chunk.arrival[chunk.count - 1];
    pool_.advance(zero);
    close_books();
    bool well = !pool_.overflowed();
    for (auto& member : pool_.members()) well &= member.shift(zero);
    zero_.add(zero);
    zero_.carry();
    return well;
  }

  bool drain() {
    pool_.advance(kNever);
    close_books();
    return !pool_.overflowed();
  }

  const Books& tally() const { return tally_; }
  const Backlog& backlog() const { return backlog_; }
  const Pool<kBlockSize, Books>& pool() const { return pool_; }
  const Wide& zero() const { return zero_; }
  const Wide& busy() const { return busy_; }
  const Wide& last_finish() const { return last_finish_; }
  i64 offered() const { return offered_; }

 private:
  void close_books() {
    tally_.carry();
    for (auto& member : pool_.members()) busy_.add(member.take_busy());
    busy_.carry();
    const i64 last = tally_.take_last_finish();
    if (last != Books::kNone) {
      last_finish_ = zero_;
      last_finish_.add(last);
      last_finish_.carry();
    }
  }

  Books tally_;
  Pool<kBlockSize, Books> pool_;
  Backlog backlog_;
  Wide zero_, busy_, last_finish_;
  i64 offered_ = 0;
};

}  // namespace planner
