// What every function of the Python face needs: borrowed arrays, checked laws and limits.
//
// Only the stable ABI of Python 3.11, so one build serves every later version. The caller
// (planner/kernels/compiled.py) checks values; here it is made sure that no value and no
// array can lead outside of memory.
#pragma once

#include "array.hpp"

#include <new>
#include <stdexcept>

#include "pool.hpp"

namespace planner {

// The arrays of a tuple, each of `size` entries.
template <class T>
bool borrow_all(PyObject* tuple, Array<T>* arrays, Py_ssize_t count, i64 size) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count) {
    PyErr_Format(PyExc_TypeError, "expected a tuple of %zd arrays", count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!arrays[i].borrow(PyTuple_GetItem(tuple, i), true)) return false;
    if (arrays[i].size() != size) {
      PyErr_SetString(PyExc_ValueError, "arrays of unequal length");
      return false;
    }
  }
  return true;
}

inline bool refuse_unless(bool holds) {
  if (!holds) PyErr_SetString(PyExc_ValueError, "a value is out of range");
  return holds;
}

constexpr i64 kMost = i64{1} << 30;

// The pool to simulate.
struct Setup {
  Array<i64> table;
  StepLaw law{};
  Limits limits{};
  i64 replicas = 0;
  Router router = Router::kRoundRobin;

  bool read(PyObject* law_tuple, PyObject* limits_tuple, long long number, int router_code) {
    PyObject* tokens_ps;
    long long square, context, sequence, chunk_context;
    long long seqs, tokens, blocks, block_size, watermark;
    int reserve;
    if (!PyArg_ParseTuple(law_tuple, "OLLLL", &tokens_ps, &square, &context, &sequence,
                          &chunk_context) ||
        !PyArg_ParseTuple(limits_tuple, "LLLLpL", &seqs, &tokens, &blocks, &block_size, &reserve,
                          &watermark) ||
        !table.borrow(tokens_ps, false))
      return false;
    law = StepLaw{table.data(), square, context, sequence, chunk_context};
    limits = Limits{seqs, tokens, blocks, block_size, reserve != 0, watermark};
    replicas = number;
    router = router_code == 0 ? Router::kRoundRobin : Router::kLeastOutstanding;
    return refuse_unless(router_code >= 0 && router_code <= 1 && in_range());
  }

 private:
  // Values outside of these could index outside of an array, or loop for ever.
  bool in_range() const {
    const Limits& it = limits;
    if (it.max_num_seqs < 1 || it.max_num_seqs > it.max_num_batched_tokens) return false;
    if (it.max_num_batched_tokens > kMost) return false;
    if (table.size() != it.max_num_batched_tokens + 1) return false;
    if (it.kv_blocks < 0 || it.kv_blocks > kMost || it.block_size < 1 || it.block_size > kMost)
      return false;
    if (it.kv_blocks * it.block_size > (i64{1} << 40)) return false;  // sums of tokens stay small
    if (it.watermark_blocks < 0 || it.watermark_blocks > kMost) return false;
    if (replicas < 1 || replicas > kMost) return false;
    for (i64 n = 1; n < table.size(); ++n)
      if (law.tokens_ps[n] < 1) return false;
    return true;
  }
};

inline bool at_least(i64 least, const i32* numbers, i64 count) {
  for (i64 i = 0; i < count; ++i)
    if (numbers[i] < least) return false;
  return true;
}

enum class Outcome { kDone, kNoMemory, kOverflow };

// Run `work`, which returns false when the clock runs out, without the GIL.
template <class Work>
Outcome without_gil(const Work& work) {
  Outcome outcome;
  Py_BEGIN_ALLOW_THREADS
  try {
    outcome = work() ? Outcome::kDone : Outcome::kOverflow;
  } catch (const std::bad_alloc&) {
    outcome = Outcome::kNoMemory;
  } catch (const std::length_error&) {
    outcome = Outcome::kNoMemory;
  }
  Py_END_ALLOW_THREADS
  return outcome;
}

inline PyObject* answer(Outcome outcome) {
  if (outcome == Outcome::kNoMemory) return PyErr_NoMemory();
  if (outcome == Outcome::kOverflow) {
    PyErr_SetString(PyExc_OverflowError, "simulated time passed 2**62 ps (53 days)");
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace planner
