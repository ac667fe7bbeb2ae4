// A gang whose processes are engines in this process, and calls of collectives on all of its partitions.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/gloo_transport.h"
#include "lockstep/collectives/grpc_transport.h"
#include "lockstep/collectives/local_transport.h"
#include "lockstep/collectives/shared_transport.h"
#include "lockstep/collectives/store.h"

namespace lockstep::collectives::testing {

using Bytes = std::vector<std::byte>;
inline constexpr std::chrono::seconds kPatience{60};  // after which a test counts as hung

struct Array {
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims;
  Bytes data;

  std::size_t count() const { return itemsize(dtype) ? data.size() / itemsize(dtype) : 0; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.data());
  }
};
Array make_array(DType dtype, std::vector<std::int64_t> dims);
template <class T>
Array array_of(const std::vector<T>& values) {
  Array a = make_array(dtype_of<T>, {static_cast<std::int64_t>(values.size())});
  std::memcpy(a.data.data(), values.data(), a.data.size());
  return a;
}

enum class Fabric { local, gloo, shared, grpc, grpc_tls };
const char* to_string(Fabric fabric);  // "Local"
// The transports of a gang, all connected.
std::vector<std::unique_ptr<Transport>> make_transports(Fabric fabric, int processes);

// The result of one partition's part in a collective.
class Ticket {
 public:
  Done done();
  // Waits; empty: success.
  std::optional<Error> wait();
  bool ready() const;
  int calls() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int calls = 0;
    std::optional<Error> error;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class Gang {
 public:
  // `interleaved`: partition p lives in process p % processes instead of p / per_process.
  Gang(Fabric fabric, int processes, int per_process, EngineOptions options = {}, bool interleaved = false);
  Gang(std::vector<std::unique_ptr<Transport>> transports, int per_process, EngineOptions options = {},
       bool interleaved = false);

  int processes() const { return static_cast<int>(engines.size()); }
  int partitions() const { return static_cast<int>(process_of.size()); }
  Engine& engine_of(std::int64_t partition) { return *engines[process_of[partition]]; }
  void start(const CollectiveSpec& spec, std::uint64_t launch, std::int64_t partition, const std::vector<Array>& in,
             std::vector<Array>& out, Done done);
  void end_launch(std::uint64_t launch);

  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<int> process_of;
};

inline constexpr std::uint64_t kMesh = 7;

// Inputs of all partitions -> outputs of all partitions, by the plainest code.
using Arrays = std::vector<std::vector<Array>>;  // [partition][leaf]
Arrays reference(const CollectiveSpec& spec, const Arrays& inputs, const Arrays& output_shapes);

// Runs one collective on all partitions, each process on its own thread, and compares with the reference.
void expect_like_reference(Gang& gang, const CollectiveSpec& spec, std::uint64_t launch, const Arrays& inputs,
                           Arrays output_shapes);

// 0, 1 and 2, which eight of multiply exactly in every dtype; `seed` makes them differ.
void fill(Array& array, std::uint64_t seed);

}  // namespace lockstep::collectives::testing
