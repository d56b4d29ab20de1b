// The Python face: arrays in, arrays out, without the GIL in between. Stable ABI of Python 3.11.
#include "../../native/array.hpp"

#include <new>

#include "engine.hpp"

#ifndef PLANNER_SOURCES
#define PLANNER_SOURCES ""
#endif

namespace {

using namespace planner::bench;
using planner::Array;

// Values outside of these could index outside of an array, or loop for ever.
bool in_range(const Law& law, const Engine& engine, const Traffic& traffic) {
  if (law.count < 2 || engine.scheduler < 0 || engine.scheduler > 2) return false;
  if (engine.max_tokens < 1 || engine.max_seqs < 1 || engine.max_seqs > engine.max_tokens)
    return false;
  if (engine.kv_tokens < 1 || engine.cached_tokens < 0 || traffic.clients < 0) return false;
  for (i64 i = 0; i < traffic.count; ++i) {
    constexpr i32 kLongest = 1 << 24;
    if (traffic.prompt[i] < 1 || traffic.output[i] < 1) return false;
    if (traffic.prompt[i] > kLongest || traffic.output[i] > kLongest) return false;
    if (traffic.clients == 0 && !(traffic.sent_s[i] < 1e15)) return false;
  }
  return true;
}

PyObject* serve(PyObject*, PyObject* args) {
  PyObject *knots_in, *steps_in, *prompts, *outputs, *sent_in, *first_in, *finish_in;
  Law law{};
  Engine engine{};
  long long tokens, seqs, kv, poll, cached, clients;
  if (!PyArg_ParseTuple(args, "(OOddd)(iLLLdLidddddddLdd)LOOOOO:serve", &knots_in, &steps_in,
                        &law.slope, &law.square, &law.context, &engine.scheduler, &tokens, &seqs,
                        &kv, &engine.reserved_output, &poll, &engine.late_steps,
                        &engine.host_step_s, &engine.host_sequence_s, &engine.host_prefill_s,
                        &engine.front_request_s, &engine.front_token_s, &engine.path_in_s,
                        &engine.path_out_s, &cached, &engine.mixed_context, &engine.cached_reread, &clients, &prompts, &outputs, &sent_in, &first_in,
                        &finish_in))
    return nullptr;
  Array<double> knots, steps, sent, first, finish;
  Array<i32> prompt, output;
  if (!knots.borrow(knots_in, false) || !steps.borrow(steps_in, false) ||
      !prompt.borrow(prompts, false) || !output.borrow(outputs, false) ||
      !sent.borrow(sent_in, true) || !first.borrow(first_in, true) ||
      !finish.borrow(finish_in, true))
    return nullptr;
  law.knots = knots.data();
  law.step_s = steps.data();
  law.count = knots.size();
  engine.max_tokens = tokens;
  engine.max_seqs = seqs;
  engine.kv_tokens = kv;
  engine.poll_steps = poll;
  engine.cached_tokens = cached;
  const i64 n = prompt.size();
  Traffic traffic{n, clients, prompt.data(), output.data(), sent.data(), first.data(),
                  finish.data()};
  const bool equal = output.size() == n && sent.size() == n && first.size() == n &&
                     finish.size() == n && steps.size() == law.count;
  if (!equal || !in_range(law, engine, traffic)) {
    PyErr_SetString(PyExc_ValueError, "arrays of unequal length, or a value out of range");
    return nullptr;
  }
  Totals totals;
  bool memory = true;
  Py_BEGIN_ALLOW_THREADS
  try {
    totals = Rank(law, engine, traffic).run();
  } catch (const std::bad_alloc&) {
    memory = false;
  }
  Py_END_ALLOW_THREADS
  if (!memory) return PyErr_NoMemory();
  return Py_BuildValue("(LL)", static_cast<long long>(totals.steps),
                       static_cast<long long>(totals.preemptions));
}

PyMethodDef methods[] = {
    {"serve", serve, METH_VARARGS,
     "serve(law, engine, clients, prompt, output, sent, first, finish) -> (steps, preemptions)"},
    {nullptr, nullptr, 0, nullptr}};

int add_constants(PyObject* module) {
  return PyModule_AddStringConstant(module, "SOURCES", PLANNER_SOURCES);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_constants)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_closed_loop", nullptr, 0, methods,
                          slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__closed_loop() { return PyModuleDef_Init(&definition); }
