// Arrays of Python's, borrowed for the time of a call.
//
// Only the stable ABI of Python 3.11, so one build serves every later version.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace planner {

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

  // False, with a Python error set, where `object` is no such buffer.
  bool borrow(PyObject* object, bool writable) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &view_, flags) != 0) return false;
    borrowed_ = true;
    const char* known = std::is_floating_point_v<T> ? "fd" : "bBilq";
    const char* format = view_.format ? view_.format : "B";
    const bool plain = std::strlen(format) == 1 && std::strchr(known, format[0]);
    if (view_.ndim == 1 && view_.itemsize == static_cast<Py_ssize_t>(sizeof(T)) && plain)
      return true;
    PyErr_Format(PyExc_TypeError, "expected a one-dimensional array of %d-byte %s",
                 static_cast<int>(sizeof(T)),
                 std::is_floating_point_v<T> ? "floats" : "integers");
    return false;
  }

  // The same, and None is absent.
  bool borrow_if_any(PyObject* object, bool writable) {
    return object == Py_None || borrow(object, writable);
  }

  bool absent() const { return !borrowed_; }
  T* data() const { return borrowed_ ? static_cast<T*>(view_.buf) : nullptr; }
  std::int64_t size() const {
    return borrowed_ ? view_.len / static_cast<std::int64_t>(sizeof(T)) : 0;
  }
  bool has(std::int64_t size) const { return borrowed_ && this->size() == size; }
  bool has_if_any(std::int64_t size) const { return !borrowed_ || this->size() == size; }

 private:
  Py_buffer view_{};
  bool borrowed_ = false;
};

}  // namespace planner
