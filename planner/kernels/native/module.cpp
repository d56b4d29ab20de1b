// The Python face: arrays in, arrays out, without the GIL in between.
#include "python.hpp"

#include "closed_loop.hpp"
#include "columns.hpp"
#include "stream_face.hpp"

#ifndef PLANNER_SOURCES
#define PLANNER_SOURCES ""
#endif

namespace {

using namespace planner;

// Requests in, their columns out: what both kinds of array runs share.
struct Job {
  Setup setup;
  Array<i64> arrival, wide[5], stages[6], gaps[5], totals;
  Array<i32> prompt, output, narrow[2];
  Traffic traffic{};
  GapColumns columns{};
  bool with_gaps = false;

  // `stages_out`: six arrays, or an empty tuple.
  bool read(PyObject* arrivals, PyObject* prompts, PyObject* outputs, PyObject* wide_out,
            PyObject* narrow_out, PyObject* stages_out, PyObject* totals_out) {
    if (!arrival.borrow(arrivals, false) || !prompt.borrow(prompts, false) ||
        !output.borrow(outputs, false) || !totals.borrow(totals_out, true))
      return false;
    const i64 n = arrival.size();
    if (prompt.size() != n || output.size() != n || totals.size() / 4 != setup.replicas) {
      PyErr_SetString(PyExc_ValueError, "arrays of unequal length");
      return false;
    }
    if (!borrow_all(wide_out, wide, 5, n) || !borrow_all(narrow_out, narrow, 2, n)) return false;
    const bool staged = PyTuple_Check(stages_out) && PyTuple_Size(stages_out) > 0;
    if (staged && !borrow_all(stages_out, stages, 6, n)) return false;
    if (!refuse_unless(n <= kMost && at_least(1, prompt.data(), n) &&
                       at_least(1, output.data(), n)))
      return false;
    traffic = Traffic{n, arrival.data(), prompt.data(), output.data()};
    columns.law = setup.law;
    i64** const wide_columns[] = {&columns.first_scheduled, &columns.first_token, &columns.finish,
                                  &columns.decode_stall, &columns.preempted};
    for (int i = 0; i < 5; ++i) *wide_columns[i] = wide[i].data();
    columns.preemptions = narrow[0].data();
    columns.replica = narrow[1].data();
    i64** const stage_columns[] = {&columns.queue,           &columns.block_wait,
                                   &columns.prefill_own,     &columns.prefill_stretch,
                                   &columns.decode_solo,     &columns.decode_batch};
    for (int i = 0; i < 6; ++i) *stage_columns[i] = staged ? stages[i].data() : nullptr;
    return true;
  }

  // `gaps_out`: five arrays, or an empty tuple.
  bool read_gaps(PyObject* gaps_out) {
    with_gaps = PyTuple_Check(gaps_out) && PyTuple_Size(gaps_out) > 0;
    if (!with_gaps) return true;
    if (!borrow_all(gaps_out, gaps, 5, traffic.count)) return false;
    i64** const gap_columns[] = {&columns.gap_decode, &columns.gap_unstalled, &columns.gap_stall,
                                 &columns.gap_solo, &columns.gap_preempted};
    for (int i = 0; i < 5; ++i) *gap_columns[i] = gaps[i].data();
    return true;
  }

  template <class Pool>
  void write_totals(const Pool& pool) {
    i64* row = totals.data();  // replicas x (steps, events, busy, peak blocks)
    for (const auto& member : pool.members()) {
      const Totals& it = member.totals();
      *row++ = it.steps;
      *row++ = it.events;
      *row++ = it.busy;
      *row++ = it.peak_blocks;
    }
  }
};

template <int kBlockSize, class Sink>
Pool<kBlockSize, Sink> make_pool(const Job& job, Sink* sink) {
  const Setup& it = job.setup;
  return Pool<kBlockSize, Sink>(it.law, it.limits, it.replicas, it.router, sink);
}

template <int kBlockSize, class Sink>
bool run(Job& job, Sink* sink) {
  auto pool = make_pool<kBlockSize>(job, sink);
  pool.push_all(0, job.traffic.count, job.traffic);
  pool.advance(kNever);
  job.write_totals(pool);
  return !pool.overflowed();
}

PyObject* simulate(PyObject*, PyObject* args) {
  Job job;
  PyObject *law, *limits, *arrivals, *prompts, *outputs, *wide, *narrow, *stages, *gaps, *totals;
  long long replicas;
  int router;
  if (!PyArg_ParseTuple(args, "OOOOOLiOOOOO:simulate", &law, &limits, &arrivals, &prompts,
                        &outputs, &replicas, &router, &wide, &narrow, &stages, &gaps, &totals) ||
      !job.setup.read(law, limits, replicas, router) ||
      !job.read(arrivals, prompts, outputs, wide, narrow, stages, totals) || !job.read_gaps(gaps))
    return nullptr;
  return answer(without_gil([&] {
    const bool of_16 = job.setup.limits.block_size == 16;
    if (job.with_gaps) return of_16 ? run<16>(job, &job.columns) : run<0>(job, &job.columns);
    Columns* const plain = &job.columns;
    return of_16 ? run<16>(job, plain) : run<0>(job, plain);
  }));
}

template <int kBlockSize, class Into>
bool run_clients(Job& job, Into* columns, const Clients& clients) {
  Finishes<Into> finishes{columns, {}};
  auto pool = make_pool<kBlockSize>(job, &finishes);
  const bool well = run_closed_loop(pool, finishes, job.traffic, clients);
  job.write_totals(pool);
  return well;
}

// Whether every request has a source and every permit belongs to one.
bool fits(const Clients& clients, i64 requests, i64 permits) {
  i64 dealt = 0;
  for (i64 k = 0; k < clients.sources; ++k) {
    if (clients.counts[k] < 0 || clients.counts[k] > permits) return false;
    dealt += clients.counts[k];
  }
  for (i64 i = 0; i < requests; ++i)
    if (clients.source[i] < 0 || clients.source[i] >= clients.sources) return false;
  return dealt == permits;
}

PyObject* simulate_clients(PyObject*, PyObject* args) {
  Job job;
  PyObject *law, *limits, *arrivals, *prompts, *outputs, *wide, *narrow, *stages, *gaps, *totals;
  PyObject *thinks, *permits, *sents, *kinds, *numbers;
  long long replicas;
  int router;
  if (!PyArg_ParseTuple(args, "OOOOOLiOOOOOOOOOO:simulate_clients", &law, &limits, &arrivals,
                        &prompts, &outputs, &replicas, &router, &wide, &narrow, &stages, &gaps,
                        &totals, &thinks, &permits, &sents, &kinds, &numbers) ||
      !job.setup.read(law, limits, replicas, router) ||
      !job.read(arrivals, prompts, outputs, wide, narrow, stages, totals) || !job.read_gaps(gaps))
    return nullptr;
  Array<i64> think, permit, sent, counts;
  Array<i32> source;
  if (!think.borrow(thinks, false) || !permit.borrow(permits, false) || !sent.borrow(sents, true) ||
      !source.borrow(kinds, false) || !counts.borrow(numbers, false))
    return nullptr;
  const i64 n = job.traffic.count;
  if (think.size() != n || sent.size() != n || source.size() != n) {
    PyErr_SetString(PyExc_ValueError, "arrays of unequal length");
    return nullptr;
  }
  const Clients clients{think.data(),  source.data(), permit.data(),
                        counts.data(), counts.size(), sent.data()};
  if (!fits(clients, n, permit.size())) {
    PyErr_SetString(PyExc_ValueError, "sources: no such source, or not all permits are dealt");
    return nullptr;
  }
  return answer(without_gil([&] {
    const bool of_16 = job.setup.limits.block_size == 16;
    GapColumns* const with = &job.columns;
    Columns* const plain = with;
    if (job.with_gaps)
      return of_16 ? run_clients<16>(job, with, clients) : run_clients<0>(job, with, clients);
    return of_16 ? run_clients<16>(job, plain, clients) : run_clients<0>(job, plain, clients);
  }));
}

PyMethodDef methods[] = {
    {"simulate", simulate, METH_VARARGS,
     "simulate(law, limits, arrival, prompt, output, replicas, router, wide, narrow, stages, "
     "gaps, totals)"},
    {"simulate_clients", simulate_clients, METH_VARARGS,
     "simulate_clients(law, limits, arrival, prompt, output, replicas, router, wide, narrow, "
     "stages, gaps, totals, think, permits, sent, source, counts)"},
    {"stream_open", stream_open, METH_VARARGS,
     "stream_open(law, limits, replicas, router, ttft, tpot, context, e2e, max_itl, starts, edges, "
     "edge_ttft)"},
    {"stream_push", stream_push, METH_VARARGS,
     "stream_push(stream, arrival, prompt, output, kind)"},
    {"stream_drain", stream_drain, METH_VARARGS, "stream_drain(stream)"},
    {"stream_read", stream_read, METH_VARARGS,
     "stream_read(stream, counts, sums, histograms, totals, backlog) -> samples"},
    {nullptr, nullptr, 0, nullptr}};

int add_constants(PyObject* module) {
  return PyModule_AddStringConstant(module, "SOURCES", PLANNER_SOURCES);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_constants)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_replica", nullptr, 0, methods,
                          slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__replica() { return PyModuleDef_Init(&definition); }
