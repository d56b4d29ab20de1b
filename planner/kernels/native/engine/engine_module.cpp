// The Python face of the engine: arrays in, arrays out, without the GIL in between.
//
// Only the stable ABI of Python 3.11. The caller (planner/kernels/engine) checks what values
// mean; here it is made sure that no value and no array can lead outside of memory.
#include "../array.hpp"

#include <memory>
#include <new>
#include <stdexcept>

#include "fleet.hpp"

#ifndef PLANNER_SOURCES
#define PLANNER_SOURCES ""
#endif

namespace {

using namespace planner;
using namespace planner::engine;

constexpr i64 kMost = i64{1} << 30;

// Numbers of a flat array, one after the other; `ok` is false once one is missing or wrong.
class Reader {
 public:
  Reader(const i64* data, i64 size) : data_(data), size_(size) {}

  i64 number(i64 least, i64 most) {
    if (at_ >= size_ || data_[at_] < least || data_[at_] > most) {
      ok_ = false;
      return least;
    }
    return data_[at_++];
  }
  bool flag() { return number(0, 1) != 0; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == size_; }

 private:
  const i64* data_;
  i64 size_, at_ = 0;
  bool ok_ = true;
};

Options read_options(Reader* in) {
  Options it;
  it.max_num_seqs = in->number(1, kMost);
  it.max_num_batched_tokens = in->number(1, kMost);
  it.kind = static_cast<Kind>(in->number(0, 2));
  it.block_size = in->number(1, kMost);
  it.usable_blocks = in->number(-1, kMost);
  if (it.usable_blocks < 0) it.usable_blocks = kUnlimited;
  it.chunked = in->flag();
  it.threshold = in->number(0, kMost);
  it.reserve_full = in->flag();
  it.watermark_blocks = in->number(0, kMost);
  it.policy = static_cast<Policy>(in->number(0, 2));
  it.prefix_caching = in->flag();
  it.async = in->flag();
  it.pp_degree = in->number(1, 1 << 10);
  return it;
}

void read_law(Reader* in, Law* law) {
  law->c_x = in->number(-kNever, kNever);
  law->c_k = in->number(-kNever, kNever);
  law->c_n = in->number(-kNever, kNever);
  law->c_c = in->number(-kNever, kNever);
  law->shift = static_cast<int>(in->number(0, 60));
}

RouterOptions read_router(Reader* in, i64 replicas) {
  RouterOptions it;
  it.route = static_cast<Route>(in->number(0, 5));
  it.slack = in->number(-1, kMost);
  const i64 boundaries = in->number(0, kMost);
  for (i64 i = 0; in->ok() && i < boundaries; ++i) it.boundaries.push_back(in->number(0, kNever));
  const i64 groups = in->number(0, kMost);
  for (i64 i = 0; in->ok() && i < groups; ++i) {
    std::vector<i64> members;
    const i64 count = in->number(1, kMost);
    for (i64 k = 0; in->ok() && k < count; ++k) members.push_back(in->number(0, replicas - 1));
    it.groups.push_back(std::move(members));
  }
  return it;
}

bool groups_suffice(const RouterOptions& it) {
  return (it.route != Route::kByLength && it.route != Route::kByClass) || !it.groups.empty();
}

bool knots_ascend(const Array<i64>& knots) {
  if (knots.size() < 2 || knots.size() % 2) return false;
  for (i64 i = 0; i < knots.size(); i += 2) {
    const i64 n = knots.data()[i];
    if (n < 0 || n > (i64{1} << 31) || (i >= 2 && n <= knots.data()[i - 2])) return false;
  }
  return true;
}

bool traffic_in_range(const Traffic& it) {
  for (i64 i = 0; i < it.count; ++i) {
    if (it.prompt[i] < 1 || it.output[i] < 1 || it.limit_of(i) < it.output[i]) return false;
    if (it.arrival[i] < 0 || it.arrival[i] >= kNever) return false;
    if (i && it.arrival[i] < it.arrival[i - 1]) return false;
    if (it.deadline && (it.deadline[i] < 0 || it.deadline[i] > kNever)) return false;
    if (it.group && it.group[i] < 0) return false;
    if (it.cached && (it.cached[i] < 0 || it.cached[i] >= it.prompt[i])) return false;
  }
  return true;
}

bool prefixes_in_range(const Traffic& it, i64 names) {
  if (!it.prefix_start) return true;
  if (it.prefix_count) {
    for (i64 i = 0; i < it.count; ++i) {
      const i64 start = it.prefix_start[i], some = it.prefix_count[i];
      if (start < 0 || some < 0 || start > names || some > names - start) return false;
    }
  } else {
    if (it.prefix_start[0] != 0 || it.prefix_start[it.count] != names) return false;
    for (i64 i = 0; i < it.count; ++i)
      if (it.prefix_start[i + 1] < it.prefix_start[i]) return false;
  }
  for (i64 i = 0; i < names; ++i)
    if (it.prefix_name[i] < 0 || it.prefix_name[i] >= it.names) return false;
  return true;
}

enum class Ending { kDone, kTooLong, kTooManySteps, kNoMemory };

struct Knots {
  const i64* numbers;
  i64 count;
};

void set_knots(Law* law, const Knots& knots, const Options& options, i64 requests) {
  const i64 seats = std::min(options.max_num_seqs, requests);
  law->set_knots(knots.numbers, knots.count, options.max_num_batched_tokens + seats);
}

Ending run(Setup* setup, const Knots (&knots)[2], const Traffic& traffic, const Columns& columns,
           Trace* trace, i64* stages, i64* n_steps, i64* tick) noexcept {
  try {
    set_knots(&setup->first_law, knots[0], setup->first, traffic.count);
    set_knots(&setup->decode_law, knots[1], setup->decode, traffic.count);
    const i64 engines = setup->n_first + (setup->split() ? setup->n_decode : 0);
    std::unique_ptr<Ledger> ledger;
    if (stages) ledger = std::make_unique<Ledger>(stages, traffic.count, engines);
    Fleet fleet(*setup, traffic, columns, trace, ledger.get());
    *tick = fleet.run();
    for (i64 i = 0; i < fleet.size(); ++i) n_steps[i] = fleet.steps(i);
    return *tick < 0 ? Ending::kDone : Ending::kTooManySteps;
  } catch (const TimeOverflow&) {
    return Ending::kTooLong;
  } catch (const std::bad_alloc&) {
    return Ending::kNoMemory;
  } catch (const std::length_error&) {
    return Ending::kNoMemory;
  }
}

PyObject* as_bytes(const std::vector<i64>& numbers) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers.data()),
                                   static_cast<Py_ssize_t>(numbers.size() * sizeof(i64)));
}

PyObject* refuse(const char* why) {
  PyErr_SetString(PyExc_ValueError, why);
  return nullptr;
}

PyObject* simulate_unguarded(PyObject* args) {
  PyObject *fleet_in, *knots_in[2], *routers_in[2], *t[11], *c[15], *steps_in, *times_in,
      *stages_in;
  int keep_steps;
  if (!PyArg_ParseTuple(args, "O(OO)(OO)(OOOOOOOOOOO)(OOOOOOOOOOOOOOO)OOOp:simulate", &fleet_in,
                        &knots_in[0], &knots_in[1], &routers_in[0], &routers_in[1], &t[0], &t[1],
                        &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8], &t[9], &t[10], &c[0], &c[1], &c[2],
                        &c[3], &c[4], &c[5], &c[6], &c[7], &c[8], &c[9], &c[10], &c[11], &c[12],
                        &c[13], &c[14], &steps_in, &times_in, &stages_in, &keep_steps))
    return nullptr;

  Array<i64> fleet, knots[2], routers[2], arrival, deadline, prefix_start, n_steps, token_times,
      stages;
  Array<i32> prompt, output, limit, priority, group, prefix_name, prefix_count, cached, narrow[5];
  Array<std::uint8_t> fate;
  Array<i64> wide[9];
  if (!fleet.borrow_if_any(fleet_in, false) || !knots[0].borrow_if_any(knots_in[0], false) ||
      !knots[1].borrow_if_any(knots_in[1], false) || !routers[0].borrow_if_any(routers_in[0], false) ||
      !routers[1].borrow_if_any(routers_in[1], false) || !arrival.borrow_if_any(t[0], false) ||
      !prompt.borrow_if_any(t[1], false) || !output.borrow_if_any(t[2], false) || !limit.borrow_if_any(t[3], false) ||
      !priority.borrow_if_any(t[4], false) || !group.borrow_if_any(t[5], false) ||
      !deadline.borrow_if_any(t[6], false) || !prefix_start.borrow_if_any(t[7], false) ||
      !prefix_name.borrow_if_any(t[8], false) || !prefix_count.borrow_if_any(t[9], false) ||
      !cached.borrow_if_any(t[10], false) || !fate.borrow_if_any(c[0], true) ||
      !n_steps.borrow_if_any(steps_in, true) || !token_times.borrow_if_any(times_in, true) ||
      !stages.borrow_if_any(stages_in, true))
    return nullptr;
  for (int i = 0; i < 9; ++i)
    if (!wide[i].borrow_if_any(c[1 + i], true)) return nullptr;
  for (int i = 0; i < 5; ++i)
    if (!narrow[i].borrow_if_any(c[10 + i], true)) return nullptr;

  // --- the fleet ---
  Setup setup;
  Reader in(fleet.data(), fleet.size());
  setup.topology = static_cast<Topology>(in.number(0, 3));
  setup.n_first = in.number(1, 1 << 20);
  setup.n_decode = in.number(0, 1 << 20);
  setup.ranks = in.number(1, 1 << 20);
  setup.groups = in.number(1, 1 << 20);
  setup.hop = in.number(0, kNever);
  setup.ticks_per_token = in.number(0, kNever);
  setup.latency = in.number(0, kNever);
  setup.fair = in.flag();
  setup.channels = in.number(1, 1 << 20);
  setup.max_steps = in.number(0, kNever);
  setup.literal = in.flag();
  Traffic traffic;
  traffic.names = in.number(0, kMost);
  setup.first = read_options(&in);
  read_law(&in, &setup.first_law);
  setup.decode = read_options(&in);
  read_law(&in, &setup.decode_law);
  const bool split = setup.split();
  if (!in.at_end() || (split && setup.n_decode < 1) || !knots_ascend(knots[0]) ||
      !knots_ascend(knots[1]))
    return refuse("the fleet is out of range");
  if (split && setup.decode.kind != Kind::kV1) return refuse("only v1 receives KV");
  if (setup.n_first % setup.groups != 0 || setup.n_decode % setup.groups != 0)
    return refuse("groups do not divide the replicas");
  if (setup.topology == Topology::kLockStep && setup.first.depth() > 1)
    return refuse("lock-step ranks have one step in flight");
  if (setup.topology == Topology::kLockStep && setup.n_first % setup.ranks != 0)
    return refuse("ranks do not divide the replicas");
  Reader first(routers[0].data(), routers[0].size()), decode(routers[1].data(), routers[1].size());
  setup.first_router = read_router(&first, setup.n_first / setup.groups);
  setup.decode_router = read_router(&decode, std::max<i64>(1, setup.n_decode / setup.groups));
  if (!first.at_end() || !decode.at_end() || !groups_suffice(setup.first_router) ||
      !groups_suffice(setup.decode_router))
    return refuse("a router is out of range");

  // --- the traffic ---
  const i64 count = arrival.size();
  if (arrival.absent() || count > kMost || !prompt.has(count) || !output.has(count) ||
      !limit.has_if_any(count) || !priority.has_if_any(count) || !group.has_if_any(count) ||
      !deadline.has_if_any(count) || !cached.has_if_any(count) || !prefix_count.has_if_any(count) ||
      !prefix_start.has_if_any(prefix_count.absent() ? count + 1 : count) ||
      prefix_start.absent() != prefix_name.absent() ||
      (prefix_start.absent() && !prefix_count.absent()))
    return refuse("arrays of unequal length");
  traffic.count = count;
  traffic.arrival = arrival.data();
  traffic.prompt = prompt.data();
  traffic.output = output.data();
  traffic.limit = limit.data();
  traffic.priority = priority.data();
  traffic.group = group.data();
  traffic.deadline = deadline.data();
  traffic.prefix_start = prefix_start.data();
  traffic.prefix_name = prefix_name.data();
  traffic.prefix_count = prefix_count.data();
  traffic.cached = cached.data();
  if (!traffic_in_range(traffic) || !prefixes_in_range(traffic, prefix_name.size()))
    return refuse("the traffic is out of range");

  // --- the results ---
  const i64 engines = setup.n_first + (split ? setup.n_decode : 0);
  bool equal = fate.has(count) && n_steps.has(engines) && stages.has_if_any(kAccountRows * count);
  for (int i = 0; i < 9; ++i) equal &= i < 4 || split ? wide[i].has(count) : wide[i].absent();
  for (int i = 0; i < 5; ++i) equal &= i < 4 || split ? narrow[i].has(count) : narrow[i].absent();
  std::vector<i64> token_start;
  i64 tokens = 0;
  if (!token_times.absent()) {
    token_start.reserve(count);
    for (i64 i = 0; i < count; ++i) {
      token_start.push_back(tokens);
      tokens += output.data()[i];
    }
    equal &= token_times.size() == tokens;
  }
  if (!equal) return refuse("arrays of unequal length");
  Columns columns;
  columns.fate = fate.data();
  columns.first_scheduled = wide[0].data();
  columns.first_token = wide[1].data();
  columns.finish = wide[2].data();
  columns.max_gap = wide[3].data();
  columns.prefill_done = wide[4].data();
  columns.decode_arrival = wide[5].data();
  columns.kv_start = wide[6].data();
  columns.kv_end = wide[7].data();
  columns.decode_first_scheduled = wide[8].data();
  columns.tokens = narrow[0].data();
  columns.preemptions = narrow[1].data();
  columns.cached_tokens = narrow[2].data();
  columns.replica = narrow[3].data();
  columns.decode_replica = narrow[4].data();
  if (!token_times.absent()) {
    columns.token_start = token_start.data();
    columns.token_times = token_times.data();
  }

  const Knots laws[2] = {{knots[0].data(), knots[0].size() / 2},
                         {knots[1].data(), knots[1].size() / 2}};
  Trace trace;
  Ending ending;
  i64 tick = -1;
  Py_BEGIN_ALLOW_THREADS
  ending = run(&setup, laws, traffic, columns, keep_steps ? &trace : nullptr,
               stages.data(), n_steps.data(), &tick);
  Py_END_ALLOW_THREADS
  switch (ending) {
    case Ending::kNoMemory: return PyErr_NoMemory();
    case Ending::kTooLong:
      PyErr_SetString(PyExc_OverflowError, "simulated time passed 2**62 ticks");
      return nullptr;
    case Ending::kTooManySteps: return PyLong_FromLongLong(tick);
    case Ending::kDone: break;
  }
  if (!keep_steps) Py_RETURN_NONE;
  PyObject* rows[3] = {as_bytes(trace.steps()), as_bytes(trace.items()),
                       as_bytes(trace.preempted())};
  PyObject* all = nullptr;
  if (rows[0] && rows[1] && rows[2]) all = PyTuple_Pack(3, rows[0], rows[1], rows[2]);
  for (PyObject* row : rows) Py_XDECREF(row);
  return all;
}

PyObject* simulate(PyObject*, PyObject* args) {
  try {
    return simulate_unguarded(args);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::length_error&) {
    return PyErr_NoMemory();
  }
}

PyMethodDef methods[] = {
    {"simulate", simulate, METH_VARARGS,
     "simulate(fleet, knots, routers, traffic, columns, n_steps, token_times, stages, keep_steps)"},
    {nullptr, nullptr, 0, nullptr}};

int add_constants(PyObject* module) {
  return PyModule_AddStringConstant(module, "SOURCES", PLANNER_SOURCES);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_constants)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_engine", nullptr, 0, methods,
                          slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__engine() { return PyModuleDef_Init(&definition); }
