// Conversion from and to NumPy arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace aligner {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

inline void require(bool holds, const char* expected) {
    if (!holds) throw py::value_error(std::string("expected ") + expected);
}

template <typename T>
void require_between(const Array<T>& values, T least, T below, const char* expected) {
    for (py::ssize_t k = 0; k < values.size(); ++k) require(least <= values.data()[k] && values.data()[k] < below, expected);
}

template <typename T>
py::array_t<T> to_array(std::vector<T>&& values) {  // without a copy
    auto* kept = new std::vector<T>(std::move(values));
    py::capsule owner(kept, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
    return py::array_t<T>(py::ssize_t(kept->size()), kept->data(), owner);
}

constexpr int64_t MAX_NUMBER = 0x7FFFFFFF;

}  // namespace aligner
