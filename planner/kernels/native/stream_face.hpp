// Streams for Python: a capsule that only the functions here look into.
#pragma once

#include <memory>
#include <variant>

#include "python.hpp"
#include "stream.hpp"

namespace planner {

// A stream of either block size, with its own copy of the law's table, and with gaps between
// tokens where some class has a deadline on them.
class AnyStream {
 public:
  AnyStream(const Setup& it, const std::vector<Deadlines>& deadlines)
      : table_(it.table.data(), it.table.data() + it.table.size()) {
    bool gaps = false;
    for (const Deadlines& due : deadlines) gaps |= due.max_itl < kNever;
    const bool of_16 = it.limits.block_size == 16;
    if (of_16 && gaps) make<16, true>(it, deadlines);
    if (of_16 && !gaps) make<16, false>(it, deadlines);
    if (!of_16 && gaps) make<0, true>(it, deadlines);
    if (!of_16 && !gaps) make<0, false>(it, deadlines);
    classes_ = static_cast<i64>(deadlines.size());
  }

  template <class Use>
  auto with(const Use& use) {
    return std::visit([&](auto& stream) { return use(*stream); }, stream_);
  }

  i64 classes() const { return classes_; }
  bool busy = false;    // a thread is inside; guarded by the GIL
  bool closed = false;  // drained, or broken by an error

 private:
  template <int kBlockSize, bool kWithGaps>
  using Held = std::unique_ptr<Stream<kBlockSize, kWithGaps>>;

  template <int kBlockSize, bool kWithGaps>
  void make(const Setup& it, const std::vector<Deadlines>& deadlines) {
    StepLaw law = it.law;
    law.tokens_ps = table_.data();
    stream_ = std::make_unique<Stream<kBlockSize, kWithGaps>>(law, it.limits, it.replicas,
                                                              it.router, deadlines);
  }

  std::vector<i64> table_;
  std::variant<Held<16, false>, Held<16, true>, Held<0, false>, Held<0, true>> stream_;
  i64 classes_ = 0;
};

constexpr const char* kStreamName = "planner.stream";

inline void stream_free(PyObject* capsule) {
  delete static_cast<AnyStream*>(PyCapsule_GetPointer(capsule, kStreamName));
}

// Whether places go from 0 to `end` without a step back.
inline bool ascends_to(const Array<i64>& places, i64 end) {
  const i64 last = places.size() - 1;
  bool well = places.data()[0] == 0 && places.data()[last] == end;
  for (i64 i = 0; i < last; ++i) well &= places.data()[i] <= places.data()[i + 1];
  return well;
}

inline PyObject* stream_open(PyObject*, PyObject* args) {
  Setup setup;
  PyObject *law, *limits, *ttfts, *tpots, *contexts, *e2es, *max_itls, *starts, *edges, *dues;
  long long replicas;
  int router;
  if (!PyArg_ParseTuple(args, "OOLiOOOOOOOO:stream_open", &law, &limits, &replicas, &router,
                        &ttfts, &tpots, &contexts, &e2es, &max_itls, &starts, &edges, &dues) ||
      !setup.read(law, limits, replicas, router))
    return nullptr;
  Array<i64> ttft, tpot, context, e2e, max_itl, start, edge, due;
  if (!ttft.borrow(ttfts, false) || !tpot.borrow(tpots, false) ||
      !context.borrow(contexts, false) || !e2e.borrow(e2es, false) ||
      !max_itl.borrow(max_itls, false) || !start.borrow(starts, false) ||
      !edge.borrow(edges, false) || !due.borrow(dues, false))
    return nullptr;
  const i64 classes = ttft.size();
  if (!refuse_unless(classes >= 1 && classes <= (1 << 20) && tpot.size() == classes &&
                     context.size() == classes && e2e.size() == classes &&
                     max_itl.size() == classes && start.size() == classes + 1 &&
                     edge.size() == due.size() && ascends_to(start, edge.size())))
    return nullptr;
  try {
    std::vector<Deadlines> deadlines;
    for (i64 i = 0; i < classes; ++i) {
      Deadlines one{ttft.data()[i], tpot.data()[i], context.data()[i], e2e.data()[i],
                    max_itl.data()[i]};
      const i64 from = start.data()[i], to = start.data()[i + 1];
      one.edges.assign(edge.data() + from, edge.data() + to);
      one.edge_ttft.assign(due.data() + from, due.data() + to);
      deadlines.push_back(std::move(one));
    }
    auto stream = std::make_unique<AnyStream>(setup, deadlines);
    PyObject* capsule = PyCapsule_New(stream.get(), kStreamName, stream_free);
    if (capsule) stream.release();
    return capsule;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::length_error&) {
    return PyErr_NoMemory();
  }
}

// The stream in a capsule, if nobody else is inside.
inline AnyStream* stream_of(PyObject* capsule, bool open) {
  auto* stream = static_cast<AnyStream*>(PyCapsule_GetPointer(capsule, kStreamName));
  if (!stream) return nullptr;
  if (stream->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the stream is in use by another thread");
    return nullptr;
  }
  if (open && stream->closed) {
    PyErr_SetString(PyExc_ValueError, "the stream is closed");
    return nullptr;
  }
  return stream;
}

// Work on a stream without the GIL. Memory or time that runs out in the middle leaves it broken.
template <class Work>
PyObject* work_on(AnyStream* stream, const Work& work) {
  stream->busy = true;
  const Outcome outcome = without_gil([&] { return stream->with(work); });
  stream->busy = false;
  if (outcome != Outcome::kDone) stream->closed = true;
  return answer(outcome);
}

inline PyObject* stream_push(PyObject*, PyObject* args) {
  PyObject *capsule, *arrivals, *prompts, *outputs, *kinds;
  if (!PyArg_ParseTuple(args, "OOOOO:stream_push", &capsule, &arrivals, &prompts, &outputs, &kinds))
    return nullptr;
  Array<i64> arrival;
  Array<i32> prompt, output, kind;
  if (!arrival.borrow(arrivals, false) || !prompt.borrow(prompts, false) ||
      !output.borrow(outputs, false) || !kind.borrow(kinds, false))
    return nullptr;
  AnyStream* const stream = stream_of(capsule, true);
  if (!stream) return nullptr;
  const i64 n = arrival.size();
  bool well = n <= kMost && prompt.size() == n && output.size() == n && kind.size() == n &&
              at_least(1, prompt.data(), n) && at_least(1, output.data(), n) &&
              at_least(0, kind.data(), n);
  i64 before = 0;
  for (i64 i = 0; well && i < n; ++i) {
    well = arrival.data()[i] >= before && kind.data()[i] < stream->classes();
    before = arrival.data()[i];
  }
  if (!refuse_unless(well && before < kLastTime)) return nullptr;
  const Chunk chunk{n, arrival.data(), prompt.data(), output.data(), kind.data()};
  return work_on(stream, [&](auto& it) { return it.push(chunk); });
}

inline PyObject* stream_drain(PyObject*, PyObject* args) {
  PyObject* capsule;
  if (!PyArg_ParseTuple(args, "O:stream_drain", &capsule)) return nullptr;
  AnyStream* const stream = stream_of(capsule, true);
  if (!stream) return nullptr;
  PyObject* done = work_on(stream, [](auto& it) { return it.drain(); });
  stream->closed = true;
  return done;
}

// Shapes: counts (classes, 10), sums (classes, outcomes, stages, 2), histograms (classes, 2, bins),
// totals (10), backlog (Backlog::kMost), all flat. Returns the number of samples.
inline PyObject* stream_read(PyObject*, PyObject* args) {
  PyObject *capsule, *counts_out, *sums_out, *histograms_out, *totals_out, *backlog_out;
  if (!PyArg_ParseTuple(args, "OOOOOO:stream_read", &capsule, &counts_out, &sums_out,
                        &histograms_out, &totals_out, &backlog_out))
    return nullptr;
  Array<i64> counts, sums, histograms, totals, backlog;
  if (!counts.borrow(counts_out, true) || !sums.borrow(sums_out, true) ||
      !histograms.borrow(histograms_out, true) || !totals.borrow(totals_out, true) ||
      !backlog.borrow(backlog_out, true))
    return nullptr;
  AnyStream* const any = stream_of(capsule, false);
  if (!any) return nullptr;
  const i64 classes = any->classes();
  if (!refuse_unless(counts.size() == classes * (kOutcomes + 4) &&
                     sums.size() == classes * kOutcomes * kStages * 2 &&
                     histograms.size() == classes * 2 * Histogram::kBins && totals.size() == 10 &&
                     backlog.size() == Backlog::kMost))
    return nullptr;
  const i64 samples = any->with([&](auto& it) {
    i64 *count = counts.data(), *sum = sums.data(), *bin = histograms.data(), *total = totals.data();
    for (const ClassTally& tally : it.tally().classes()) {
      *count++ = tally.offered;
      *count++ = tally.rejected;
      count = std::copy(tally.outcomes, tally.outcomes + kOutcomes, count);
      *count++ = tally.output_tokens;
      *count++ = tally.preemptions;
      for (const auto& row : tally.stages)
        for (const Wide& wide : row) {
          *sum++ = wide.high;
          *sum++ = wide.low;
        }
      bin = std::copy(tally.ttft.bins().begin(), tally.ttft.bins().end(), bin);
      bin = std::copy(tally.tpot.bins().begin(), tally.tpot.bins().end(), bin);
    }
    Totals whole;
    for (const auto& member : it.pool().members()) {
      whole.steps += member.totals().steps;
      whole.events += member.totals().events;
      whole.peak_blocks = std::max(whole.peak_blocks, member.totals().peak_blocks);
    }
    const i64 plain[] = {whole.steps, whole.events, whole.peak_blocks, it.backlog().stride()};
    total = std::copy(plain, plain + 4, total);
    for (const Wide* wide : {&it.busy(), &it.zero(), &it.last_finish()}) {
      *total++ = wide->high;
      *total++ = wide->low;
    }
    const auto& taken = it.backlog().samples();
    std::copy(taken.begin(), taken.end(), backlog.data());
    return static_cast<i64>(taken.size());
  });
  return PyLong_FromLongLong(samples);
}

}  // namespace planner
