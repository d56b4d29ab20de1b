// The Python face: arrays in, arrays out, without the GIL in between.
//
// Only the stable ABI of Python 3.11, so one build serves every later version. The caller
// (planner/kernels/compiled.py) checks values; here it is made sure that no value and no
// array can lead outside of memory.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "pool.hpp"

#ifndef PLANNER_SOURCES
#define PLANNER_SOURCES ""
#endif

namespace {

using namespace planner;

// A borrowed one-dimensional, contiguous buffer of T.
template <class T>
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    if (borrowed_) PyBuffer_Release(&view_);
  }

  bool borrow(PyObject* object, bool writable) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &view_, flags) != 0) return false;
    borrowed_ = true;
    const char* format = view_.format ? view_.format : "B";
    const bool whole = std::strlen(format) == 1 && std::strchr("ilq", format[0]);
    if (view_.ndim == 1 && view_.itemsize == static_cast<Py_ssize_t>(sizeof(T)) && whole)
      return true;
    PyErr_Format(PyExc_TypeError, "expected a one-dimensional array of %d-byte integers",
                 static_cast<int>(sizeof(T)));
    return false;
  }

  T* data() const { return static_cast<T*>(view_.buf); }
  i64 size() const { return view_.len / static_cast<i64>(sizeof(T)); }

 private:
  Py_buffer view_{};
  bool borrowed_ = false;
};

// Writes what is known of a request where its record lies.
struct Columns {
  i64 *first_scheduled, *first_token, *finish, *decode_stall, *preempted;
  i32 *preemptions, *replica;

  void finished(const Sequence& it, i64 time, i32 index) {
    const i32 id = it.request.id;
    first_scheduled[id] = it.first_scheduled;
    first_token[id] = it.first_token;
    finish[id] = time;
    decode_stall[id] = it.decode_stall;
    preempted[id] = it.preempted;
    preemptions[id] = it.preemptions;
    replica[id] = index;
  }

  void rejected(i32 id) {
    first_scheduled[id] = first_token[id] = finish[id] = decode_stall[id] = preempted[id] = -1;
    preemptions[id] = replica[id] = -1;
  }
};

struct Job {
  StepLaw law{};
  Limits limits{};
  i64 count = 0, replicas = 0;
  Router router = Router::kRoundRobin;
  const i64* arrival = nullptr;
  const i32 *prompt = nullptr, *output = nullptr;
  Columns columns{};
  i64* totals = nullptr;  // replicas x (steps, events, busy, peak blocks)
};

enum class Outcome { kDone, kNoMemory, kOverflow };

// The longest output of a request that is not rejected: what the calendar must span.
i64 longest_output(const Job& job) {
  const i64 tokens = job.limits.kv_blocks * job.limits.block_size;
  i64 longest = 1;
  for (i64 i = 0; i < job.count; ++i)
    if (i64{job.prompt[i]} + job.output[i] - 1 <= tokens)
      longest = std::max<i64>(longest, job.output[i]);
  return longest;
}

template <int kBlockSize>
Outcome run(Job& job) {
  Pool<kBlockSize, Columns> pool(job.law, job.limits, longest_output(job), job.replicas, job.router,
                                 &job.columns);
  pool.run(job.count, job.arrival, job.prompt, job.output);
  i64* row = job.totals;
  for (const auto& member : pool.members()) {
    if (member.overflowed()) return Outcome::kOverflow;
    const Totals& totals = member.totals();
    *row++ = totals.steps;
    *row++ = totals.events;
    *row++ = totals.busy;
    *row++ = totals.peak_blocks;
  }
  return Outcome::kDone;
}

Outcome run_guarded(Job& job) noexcept {
  try {
    return job.limits.block_size == 16 ? run<16>(job) : run<0>(job);
  } catch (const std::bad_alloc&) {
    return Outcome::kNoMemory;
  } catch (const std::length_error&) {
    return Outcome::kNoMemory;
  }
}

// Values outside of these could index outside of an array, or loop for ever.
bool in_range(const Job& job, i64 table_size, int router) {
  constexpr i64 kMost = i64{1} << 30;
  const Limits& it = job.limits;
  if (it.max_num_seqs < 1 || it.max_num_seqs > it.max_num_batched_tokens) return false;
  if (it.max_num_batched_tokens > kMost) return false;
  if (table_size != it.max_num_batched_tokens + 1) return false;
  if (it.kv_blocks < 0 || it.kv_blocks > kMost || it.block_size < 1 || it.block_size > kMost)
    return false;
  if (it.kv_blocks * it.block_size > (i64{1} << 40)) return false;  // sums of tokens stay small
  if (it.watermark_blocks < 0 || it.watermark_blocks > kMost) return false;
  if (job.replicas < 1 || job.count > kMost || router < 0 || router > 1) return false;
  for (i64 n = 1; n < table_size; ++n)
    if (job.law.tokens_ps[n] < 1) return false;
  for (i64 i = 0; i < job.count; ++i)
    if (job.prompt[i] < 1 || job.output[i] < 1) return false;
  return true;
}

PyObject* simulate(PyObject*, PyObject* args) {
  Job job;
  PyObject *table, *arrivals, *prompts, *outputs, *columns[7], *totals_out;
  long long square, context, sequence, chunk_context;
  long long seqs, tokens, blocks, block_size, watermark, replicas;
  int reserve, router;
  if (!PyArg_ParseTuple(args, "(OLLLL)(LLLLpL)OOOLi(OOOOOOO)O:simulate", &table, &square, &context,
                        &sequence, &chunk_context, &seqs, &tokens, &blocks, &block_size, &reserve,
                        &watermark, &arrivals, &prompts, &outputs, &replicas, &router, &columns[0],
                        &columns[1], &columns[2], &columns[3], &columns[4], &columns[5],
                        &columns[6], &totals_out))
    return nullptr;

  Array<i64> tokens_ps, arrival, wide[5], totals;
  Array<i32> prompt, output, narrow[2];
  if (!tokens_ps.borrow(table, false) || !arrival.borrow(arrivals, false) ||
      !prompt.borrow(prompts, false) || !output.borrow(outputs, false) ||
      !totals.borrow(totals_out, true))
    return nullptr;
  job.count = arrival.size();
  job.replicas = replicas;
  bool equal = prompt.size() == job.count && output.size() == job.count;
  for (int i = 0; i < 5; ++i) {
    if (!wide[i].borrow(columns[i], true)) return nullptr;
    equal &= wide[i].size() == job.count;
  }
  for (int i = 0; i < 2; ++i) {
    if (!narrow[i].borrow(columns[5 + i], true)) return nullptr;
    equal &= narrow[i].size() == job.count;
  }
  if (!equal || totals.size() / 4 != job.replicas) {
    PyErr_SetString(PyExc_ValueError, "arrays of unequal length");
    return nullptr;
  }

  job.law = StepLaw{tokens_ps.data(), square, context, sequence, chunk_context};
  job.limits = Limits{seqs, tokens, blocks, block_size, reserve != 0, watermark};
  job.router = router == 0 ? Router::kRoundRobin : Router::kLeastOutstanding;
  job.arrival = arrival.data();
  job.prompt = prompt.data();
  job.output = output.data();
  job.columns = Columns{wide[0].data(), wide[1].data(),   wide[2].data(),  wide[3].data(),
                        wide[4].data(), narrow[0].data(), narrow[1].data()};
  job.totals = totals.data();
  if (!in_range(job, tokens_ps.size(), router)) {
    PyErr_SetString(PyExc_ValueError, "a value is out of range");
    return nullptr;
  }

  Outcome outcome;
  Py_BEGIN_ALLOW_THREADS
  outcome = run_guarded(job);
  Py_END_ALLOW_THREADS
  if (outcome == Outcome::kNoMemory) return PyErr_NoMemory();
  if (outcome == Outcome::kOverflow) {
    PyErr_SetString(PyExc_OverflowError, "simulated time passed 2**62 ps (53 days)");
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"simulate", simulate, METH_VARARGS,
     "simulate(law, limits, arrival, prompt, output, replicas, router, columns, totals)"},
    {nullptr, nullptr, 0, nullptr}};

int add_constants(PyObject* module) {
  return PyModule_AddStringConstant(module, "SOURCES", PLANNER_SOURCES);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_constants)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_replica", nullptr, 0, methods,
                          slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__replica() { return PyModuleDef_Init(&definition); }
