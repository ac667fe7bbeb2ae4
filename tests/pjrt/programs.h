// What the tests of this room share: a client with one device, small programs, and arrays to and from it.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {

using namespace std::chrono_literals;

// CompileOptionsProto { executable_build_options { num_replicas: 1 num_partitions: 1 } }, and the same with
// compile_portable_executable.
inline const std::string kOptions = "\x1a\x04\x20\x01\x28\x01";
inline const std::string kPortable = kOptions + "\x20\x01";

inline const Plugin& cpu_plugin() { return Plugin::load(find_cpu_plugin()); }
inline Client& cpu() {
  static auto* client = Client::create(cpu_plugin(), {.cpu_device_count = 1}).release();
  return *client;
}

inline const std::string kAdd = R"(module @add {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %r = stablehlo.add %a, %b : tensor<4xf32>
    return %r : tensor<4xf32>
  } })";

template <class T>
Buffer put(Client& client, const std::vector<T>& values, std::vector<std::int64_t> dims = {}, int device = 0) {
  if (dims.empty()) dims = {static_cast<std::int64_t>(values.size())};
  return client.buffer_from_host({.data = values.data(), .dtype = dtype_of<T>, .dims = dims},
                                 *client.addressable_devices()[device]);
}

template <class T>
std::vector<T> get(const Buffer& buffer) {
  std::size_t n = 1;
  for (auto d : buffer.dims()) n *= static_cast<std::size_t>(d);
  std::vector<T> values(n);
  buffer.to_host(std::as_writable_bytes(std::span(values))).await_for(30s);
  return values;
}

// Runs `f` and returns the Error it throws; fails the test if it throws none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::invalid_argument, "", "");
}

}  // namespace lockstep::pjrt
