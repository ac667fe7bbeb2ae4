#include "tests/collectives/gang.h"

#include <algorithm>
#include <complex>

#include "tests/support/certificates.h"

namespace lockstep::collectives::testing {

Array make_array(DType dtype, std::vector<std::int64_t> dims) {
  std::size_t n = itemsize(dtype);
  for (auto d : dims) n *= d;
  return {dtype, std::move(dims), Bytes(n)};
}

const char* to_string(Fabric fabric) {
  constexpr const char* names[] = {"Local", "Gloo", "Shared", "Grpc", "GrpcTls"};
  return names[static_cast<int>(fabric)];
}

std::vector<std::unique_ptr<Transport>> make_transports(Fabric fabric, int processes) {
  std::vector<std::unique_ptr<Transport>> transports(processes);
  if (fabric == Fabric::local) {
    LocalFabric local(processes);
    for (int rank = 0; rank < processes; ++rank) transports[rank] = local.transport(rank);
    return transports;
  }
  MemoryStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < processes; ++rank) {
    threads.emplace_back([&, rank] {
      auto deadline = std::chrono::steady_clock::now() + kPatience;
      if (fabric == Fabric::grpc || fabric == Fabric::grpc_tls) {
        GrpcOptions options;
        if (fabric == Fabric::grpc_tls) options.tls = gang_certificate();
        transports[rank] = connect_grpc(store, rank, processes, deadline, options);
        return;
      }
      transports[rank] = connect_gloo(store, rank, processes, deadline, {});
      if (fabric == Fabric::shared) {
        transports[rank] = with_shared_memory(std::move(transports[rank]), store, deadline);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return transports;
}

Done Ticket::done() {
  return [state = state_](const Error* error) {
    std::lock_guard lock(state->mutex);
    ++state->calls;
    if (error) state->error = *error;
    state->changed.notify_all();
  };
}

std::optional<Error> Ticket::wait() {
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, kPatience, [&] { return state_->calls > 0; })) {
    ADD_FAILURE() << "a collective hangs";
    return Error(ErrorCode::timeout, "test", "hung", 0);
  }
  return state_->error;
}

bool Ticket::ready() const { return calls() > 0; }
int Ticket::calls() const {
  std::lock_guard lock(state_->mutex);
  return state_->calls;
}

Gang::Gang(Fabric fabric, int processes, int per_process, EngineOptions options, bool interleaved)
    : Gang(make_transports(fabric, processes), per_process, options, interleaved) {}

Gang::Gang(std::vector<std::unique_ptr<Transport>> transports, int per_process, EngineOptions options,
           bool interleaved) {
  int processes = static_cast<int>(transports.size());
  for (int p = 0; p < processes * per_process; ++p) {
    process_of.push_back(interleaved ? p % processes : p / per_process);
  }
  for (auto& transport : transports) {
    engines.push_back(std::make_unique<Engine>(std::move(transport), options));
    engines.back()->add_communicator({kMesh, process_of});
  }
}

void Gang::start(const CollectiveSpec& spec, std::uint64_t launch, std::int64_t partition, const std::vector<Array>& in,
                 std::vector<Array>& out, Done done) {
  std::vector<InBuffer> inputs;
  std::vector<OutBuffer> outputs;
  for (const Array& a : in) inputs.push_back({a.data.data(), a.data.size(), a.dtype, a.count(), a.dims});
  for (Array& a : out) outputs.push_back({a.data.data(), a.data.size(), a.dtype, a.count(), a.dims});
  engine_of(partition).start(std::make_shared<CollectiveSpec>(spec), kMesh, launch, partition, inputs, outputs,
                             std::move(done));
}

void Gang::end_launch(std::uint64_t launch) {
  for (int p = 0; p < partitions(); ++p) engine_of(p).end_launch(kMesh, launch, p);
}

// ---- the reference --------------------------------------------------------------------------------------------------

namespace {

template <class T>
void reduce_element(Reduction r, T& a, T b) {
  if constexpr (std::is_same_v<T, Half>) {
    float x = to_float(a);
    reduce_element(r, x, to_float(b));
    a = to_half(x);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    float x = to_float(a);
    reduce_element(r, x, to_float(b));
    a = to_bfloat16(x);
  } else {
    if (r == Reduction::add) a = static_cast<T>(a + b);
    if (r == Reduction::multiply) a = static_cast<T>(a * b);
    if constexpr (std::is_arithmetic_v<T>) {
      if (r == Reduction::maximum) a = std::max(a, b);
      if (r == Reduction::minimum) a = std::min(a, b);
    }
    if constexpr (std::is_integral_v<T>) {
      if (r == Reduction::and_) a = static_cast<T>(a & b);
      if (r == Reduction::or_) a = static_cast<T>(a | b);
      if (r == Reduction::xor_) a = static_cast<T>(a ^ b);
    }
  }
}

template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::bool_:
      return f(bool{});
    case DType::int8:
      return f(std::int8_t{});
    case DType::int16:
      return f(std::int16_t{});
    case DType::int32:
      return f(std::int32_t{});
    case DType::int64:
      return f(std::int64_t{});
    case DType::uint8:
      return f(std::uint8_t{});
    case DType::uint16:
      return f(std::uint16_t{});
    case DType::uint32:
      return f(std::uint32_t{});
    case DType::uint64:
      return f(std::uint64_t{});
    case DType::float16:
      return f(Half{});
    case DType::bfloat16:
      return f(Bfloat16{});
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::complex64:
      return f(std::complex<float>{});
    case DType::complex128:
      return f(std::complex<double>{});
    default:
      FAIL();
  }
}

void reduce_arrays(Reduction reduction, Array& a, const Array& b) {
  with_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < a.count(); ++i) reduce_element(reduction, a.as<T>()[i], b.as<T>()[i]);
  });
}

std::int64_t number(const Array& a, std::size_t i) {
  return a.dtype == DType::int64 ? a.as<std::int64_t>()[i] : a.as<std::int32_t>()[i];
}

}  // namespace

void fill(Array& array, std::uint64_t seed) {
  with_type(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
    for (std::size_t i = 0; i < array.count(); ++i) {
      x = x * 6364136223846793005ull + 1442695040888963407ull;
      int v = std::min(static_cast<int>(x >> 62), 2);
      if constexpr (std::is_same_v<T, Half>) {
        array.as<T>()[i] = to_half(static_cast<float>(v));
      } else if constexpr (std::is_same_v<T, Bfloat16>) {
        array.as<T>()[i] = to_bfloat16(static_cast<float>(v));
      } else if constexpr (std::is_same_v<T, bool>) {
        array.as<T>()[i] = v & 1;
      } else {
        array.as<T>()[i] = static_cast<T>(v);
      }
    }
  });
}

Arrays reference(const CollectiveSpec& spec, const Arrays& in, const Arrays& shapes) {
  Arrays out = shapes;
  for (auto& leaves : out) {
    for (Array& a : leaves) std::fill(a.data.begin(), a.data.end(), std::byte{0});
  }
  if (spec.op == CollectiveOp::collective_permute) {
    for (std::size_t i = 0; i < spec.pairs.size(); i += 2) {
      for (std::size_t k = 0; k < in[0].size(); ++k) out[spec.pairs[i + 1]][k].data = in[spec.pairs[i]][k].data;
    }
    return out;
  }
  int group = static_cast<int>(spec.group_size);
  for (std::size_t first = 0; first < spec.groups.size(); first += group) {
    auto member = [&](int j) { return spec.groups[first + j]; };
    for (int j = 0; j < group; ++j) {
      auto& result = out[member(j)];
      for (std::size_t k = 0; k < result.size(); ++k) {
        Array& r = result[k];
        std::size_t outer = k < spec.outer.size() ? spec.outer[k] : 1;
        switch (spec.op) {
          case CollectiveOp::all_reduce: {
            r.data = in[member(0)][k].data;
            for (int m = 1; m < group; ++m) reduce_arrays(spec.reduction, r, in[member(m)][k]);
            break;
          }
          case CollectiveOp::reduce_scatter: {
            Array all = in[member(0)][k];
            for (int m = 1; m < group; ++m) reduce_arrays(spec.reduction, all, in[member(m)][k]);
            std::size_t block = r.data.size() / outer;
            for (std::size_t x = 0; x < outer; ++x) {
              if (block) std::memcpy(r.data.data() + x * block, all.data.data() + (x * group + j) * block, block);
            }
            break;
          }
          case CollectiveOp::all_gather: {
            std::size_t block = in[member(0)][k].data.size() / outer;
            for (int m = 0; m < group && block; ++m) {
              for (std::size_t x = 0; x < outer; ++x) {
                std::memcpy(r.data.data() + (x * group + m) * block, in[member(m)][k].data.data() + x * block, block);
              }
            }
            break;
          }
          case CollectiveOp::all_to_all:
            r.data = in[member(static_cast<int>(k))][j].data;
            break;
          case CollectiveOp::collective_broadcast:
            r.data = in[member(0)][k].data;
            break;
          case CollectiveOp::ragged_all_to_all: {
            r.data = in[member(j)][1].data;
            std::size_t row = r.data.size() / r.dims[0], updates = in[member(j)][2].count() / group;
            for (int m = 0; m < group; ++m) {
              const auto& from = in[member(m)];
              for (std::size_t u = 0; u < updates; ++u) {
                std::size_t i = j * updates + u;
                if (number(from[3], i) == 0) continue;
                std::memcpy(r.data.data() + number(from[4], i) * row, from[0].data.data() + number(from[2], i) * row,
                            number(from[3], i) * row);
              }
            }
            break;
          }
          case CollectiveOp::collective_permute:
            break;
        }
      }
    }
  }
  return out;
}

void expect_like_reference(Gang& gang, const CollectiveSpec& spec, std::uint64_t launch, const Arrays& inputs,
                           Arrays out) {
  Arrays want = reference(spec, inputs, out);
  for (auto& leaves : out) {
    for (Array& a : leaves) std::fill(a.data.begin(), a.data.end(), std::byte{0xee});
  }
  std::vector<Ticket> tickets(gang.partitions());
  std::vector<std::thread> threads;
  for (int process = 0; process < gang.processes(); ++process) {
    threads.emplace_back([&, process] {
      for (int p = 0; p < gang.partitions(); ++p) {
        if (gang.process_of[p] == process) gang.start(spec, launch, p, inputs[p], out[p], tickets[p].done());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int p = 0; p < gang.partitions(); ++p) {
    auto error = tickets[p].wait();
    ASSERT_FALSE(error) << "partition " << p << ": " << error->what();
    for (std::size_t k = 0; k < out[p].size(); ++k) {
      ASSERT_TRUE(out[p][k].data == want[p][k].data)
          << to_string(spec.op) << " " << to_string(spec.reduction) << " " << name(out[p][k].dtype) << ", partition "
          << p << ", result " << k;
    }
  }
  gang.end_launch(launch);
}

}  // namespace lockstep::collectives::testing
