// Checks that run compiled functions on host data. Many are compiled together, for a compile costs more than what it
// compiles; if that fails, each is compiled alone, so that the guilty one is named.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/trace/array.h"
#include "lockstep/trace/rules.h"

namespace lockstep::rules_test {

using Host = ExampleOperand;  // an aval and its numbers

struct Check {
  std::string label;
  std::vector<Host> in;
  std::function<Arrays(std::span<const Array>)> f;         // traced
  std::function<void(std::span<const Host> outs)> verify;  // reports through GoogleTest
};

// Adds a GoogleTest failure, naming the check, for each that can't be traced, compiled or run, or is not verified.
void run_checks(const std::vector<Check>& checks);

// Fails unless the values are equal: integers, bools and keys exactly, others within tolerance * (1 + |expected|). NaN
// equals NaN.
void expect_close(const Host& actual, const Host& expected, double tolerance, const std::string& what);

// The default tolerance for numbers that were computed in two ways.
double rounding_of(DType t);

// Index `i` along an axis, which goes; and arrays of one aval put side by side along a new axis.
Host slice_of(const Host& a, int axis, std::int64_t i);
Host stack(std::span<const Host> parts, int axis);

}  // namespace lockstep::rules_test
