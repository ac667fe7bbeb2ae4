// Runs JAX's programs, as make_cases.py writes them, over the processes of a gang, and compares every partition's
// results with JAX's.
//
//   gang_case DIRECTORY [--launches N] [NAME...]    one process of the gang; see
//   distributed::initialize
//
// Process 0 partitions and compiles each program and hands the bytes to the others. Prints a line per case.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/compile/inject.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/runtime/gang.h"

using namespace lockstep;
using namespace std::chrono_literals;

namespace {

constexpr int kPartitions = 4;
using Bytes = std::vector<std::byte>;

struct Leaf {
  pjrt::TensorType type;
  std::vector<Bytes> parts;  // by partition
};

struct Case {
  std::string program, refused;
  bool open = false;  // the results' shardings are the compiler's choice
  std::vector<Leaf> inputs, outputs;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_error(ErrorCode::io, "gang_case", "cannot read {}", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Case read_case(const std::string& stem) {
  Case c;
  c.program = read_file(stem + ".mlir");
  std::istringstream text(read_file(stem + ".txt"));
  std::string data = read_file(stem + ".bin"), line;
  std::size_t at = 0;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "open") words >> c.open;
    if (kind == "refused") words >> c.refused;
    if (kind != "input" && kind != "output") continue;
    Leaf leaf;
    std::string dtype;
    words >> dtype;
    leaf.type.dtype = dtype_from_name(dtype);
    std::size_t bytes = itemsize(leaf.type.dtype);
    for (std::int64_t d; words >> d;) leaf.type.dims.push_back(d), bytes *= d;
    for (int p = 0; p < kPartitions; ++p, at += bytes) {
      auto* from = reinterpret_cast<const std::byte*>(data.data()) + at;
      leaf.parts.emplace_back(from, from + bytes);
    }
    (kind == "input" ? c.inputs : c.outputs).push_back(std::move(leaf));
  }
  LS_CHECK(at == data.size(), "{} has {} bytes too many", stem, data.size() - at);
  return c;
}

// The largest difference relative to the largest wanted value.
template <class T>
double difference(const Bytes& got, const Bytes& want) {
  auto value = [](const Bytes& bytes, std::size_t i) {
    T v;
    std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      return static_cast<double>(to_float(v));
    } else {
      return v;
    }
  };
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < want.size() / sizeof(T); ++i) {
    double d = std::abs(value(got, i) - value(want, i));
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    scale = std::max<double>(scale, std::abs(value(want, i)));
  }
  return worst / scale;
}

bool close(DType dtype, const Bytes& got, const Bytes& want) {
  switch (dtype) {
    case DType::float16:
      return difference<Half>(got, want) < 4e-3;
    case DType::bfloat16:
      return difference<Bfloat16>(got, want) < 3e-2;
    case DType::float32:
      return difference<float>(got, want) < 2e-6;
    case DType::complex64:
      return difference<std::complex<float>>(got, want) < 2e-6;
    case DType::float64:
      return difference<double>(got, want) < 1e-14;
    case DType::complex128:
      return difference<std::complex<double>>(got, want) < 1e-14;
    default:
      return false;
  }
}

class Runner {
 public:
  explicit Runner(std::string directory)
      : directory_(std::move(directory)), mesh_(make_mesh({{"x", 2}, {"y", 2}})), channel_(runtime::channel(mesh_)) {}

  // "same" (bit for bit), "close" or what is wrong.
  std::string run(const std::string& name, int launches) {
    Case c = read_case(directory_ + "/" + name);
    pjrt::LoadedExecutable executable;
    try {
      executable = load(name, c);
    } catch (const Error& error) {
      bool expected = !c.refused.empty() && error.message().find(c.refused) != std::string::npos;
      return expected ? "refused" : error.what();
    }
    if (!c.refused.empty()) return "compiled, though it should be refused";
    auto program = std::make_shared<runtime::CollectiveProgram>(channel_.engine(), channel_.communicator());
    std::string verdict;
    for (int i = 0; i < launches; ++i) {
      verdict = launch(c, executable, program);
      if (verdict != "same" && verdict != "close") break;
    }
    return verdict;
  }

 private:
  pjrt::LoadedExecutable load(const std::string& name, const Case& c) {
    runtime::Backend& b = runtime::backend();
    auto kv = distributed::kv();
    std::string key = fmt::format("gang/{}", loads_++);
    if (b.process_index() > 0) {
      std::string bytes = kv.get(key, 120s);
      if (bytes.starts_with("error ")) throw_error(ErrorCode::compile, "compile", "{}", bytes.substr(6));
      return b.client().deserialize(bytes);
    }
    try {
      compile::CompileOptions options{.num_partitions = kPartitions};
      options.propagate_to_results.assign(c.outputs.size(), c.open);
      auto partitioned = compile::partition(b.partitioner(kPartitions), c.program, options,
                                            {.background = b.local_devices().size() > 1});
      auto executable = compile::inject(b.client(), partitioned);
      kv.set(key, executable.serialize());
      return executable;
    } catch (const Error& error) {
      kv.set(key, fmt::format("error {}", error.message()));
      throw;
    }
  }

  std::string launch(const Case& c, const pjrt::LoadedExecutable& executable,
                     const std::shared_ptr<runtime::CollectiveProgram>& program) {
    runtime::Backend& b = runtime::backend();
    auto local = b.local_devices();
    std::vector<std::vector<pjrt::Buffer>> in(local.size()), out(local.size());
    std::vector<int> partitions;  // of the local devices: places in the mesh
    for (const Device& d : local)
      partitions.push_back(static_cast<int>(std::find(mesh_.device_ids().begin(), mesh_.device_ids().end(), d.id) -
                                            mesh_.device_ids().begin()));
    for (std::size_t i = 0; i < local.size(); ++i) {
      for (const Leaf& leaf : c.inputs) {
        in[i].push_back(b.client().buffer_from_host(
            {.data = leaf.parts[partitions[i]].data(), .dtype = leaf.type.dtype, .dims = leaf.type.dims},
            b.local_device(static_cast<int>(i))));
      }
    }
    channel_.launch({}, [&](std::uint64_t number) {
      for (std::size_t i = 0; i < local.size(); ++i) {
        std::vector<PJRT_Buffer*> arguments, results(executable.output_count());
        for (const pjrt::Buffer& buffer : in[i]) arguments.push_back(buffer.raw());
        runtime::launch_partition(b.client().plugin(), executable, program, number, partitions[i],
                                  b.local_device(static_cast<int>(i)), arguments, results.data());
        for (PJRT_Buffer* result : results) out[i].emplace_back(b.client().api(), result);
      }
    });
    std::string verdict = "same";
    for (std::size_t i = 0; i < local.size(); ++i) {
      if (out[i].size() != c.outputs.size()) return fmt::format("{} results, not {}", out[i].size(), c.outputs.size());
      for (std::size_t k = 0; k < c.outputs.size(); ++k) {
        const Leaf& want = c.outputs[k];
        out[i][k].ready().await_for(60s);
        auto dims = out[i][k].dims();
        if (out[i][k].dtype() != want.type.dtype ||
            !std::equal(dims.begin(), dims.end(), want.type.dims.begin(), want.type.dims.end())) {
          return fmt::format("result {} is {}[{}], not {}[{}]", k, short_name(out[i][k].dtype()), fmt::join(dims, ","),
                             short_name(want.type.dtype), fmt::join(want.type.dims, ","));
        }
        Bytes got(want.parts[0].size());
        out[i][k].to_host(got).await_for(60s);
        const Bytes& part = want.parts[partitions[i]];
        if (got == part) continue;
        if (!close(want.type.dtype, got, part))
          return fmt::format("result {} of partition {} differs", k, partitions[i]);
        verdict = "close";
      }
    }
    return verdict;
  }

  std::string directory_;
  Mesh mesh_;
  runtime::MeshChannel& channel_;
  int loads_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  int launches = 1;
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--launches" && i + 1 < argc) {
      launches = std::atoi(argv[++i]);
    } else {
      names.push_back(word);
    }
  }
  if (argc < 2) {
    fmt::print(stderr, "usage: gang_case DIRECTORY [--launches N] [NAME...]\n");
    return 2;
  }
  bool good = true;
  try {
    distributed::initialize();
    if (names.empty()) {
      std::istringstream all(read_file(std::string(argv[1]) + "/cases"));
      for (std::string name; all >> name;) names.push_back(name);
    }
    Runner runner(argv[1]);
    for (const std::string& name : names) {
      std::string verdict;
      try {
        verdict = runner.run(name, launches);
      } catch (const Error& error) {
        verdict = error.what();
      }
      bool passed = verdict == "same" || verdict == "close" || verdict == "refused";
      good = good && passed;
      fmt::print("{} {}: {}\n", passed ? "ok" : "FAILED", name, verdict);
      std::fflush(stdout);
    }
    if (good) distributed::shutdown();  // else the others may not be able to: they hear of the exit status
  } catch (const Error& error) {
    fmt::print("FAILED: {}\n", error.what());
    good = false;
  }
  return good ? 0 : 1;
}
