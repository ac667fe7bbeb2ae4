// One process of a gang that runs partitioned programs: each directory below DIRECTORY that holds a program.mlir, in
// the order of their names. usage: run_programs DIRECTORY RANK PROCESSES DEVICES ROUTE LAUNCH
//   ROUTE   hook or whole_compile (compile/partition.h)
//   LAUNCH  threads (one per device) or background (one for all devices)
// meta.txt of a program: "inputs N results N propagate 0101" ("-" for none), and a line "dtype rank dims..." for each
// input and result of one partition. Reads input<k>_<partition>.bin, writes result<k>_<partition>.bin for its
// partitions or, when the program is refused or fails, error_<rank>.txt.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/gloo_transport.h"
#include "lockstep/compile/inject.h"
#include "lockstep/compile/partition.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/support/error.h"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kLaunches = 2;  // of each program; the second one's results count

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Keys are files of a directory that all processes see.
class DirectoryStore : public collectives::Store {
 public:
  explicit DirectoryStore(fs::path directory) : directory_(std::move(directory)) {}
  void set(const std::string& key, const std::string& value) override {
    fs::path path = file_of(key);
    write_file(path.string() + ".new", value);
    fs::rename(path.string() + ".new", path);
  }
  std::string get(const std::string& key, std::chrono::steady_clock::time_point deadline) override {
    while (!fs::exists(file_of(key))) {
      if (std::chrono::steady_clock::now() > deadline) throw_error(ErrorCode::timeout, "store", "no key {}", key);
      std::this_thread::sleep_for(5ms);
    }
    return read_file(file_of(key));
  }

 private:
  fs::path file_of(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '_');
    return directory_ / key;
  }
  fs::path directory_;
};

struct Case {
  fs::path directory;
  std::vector<pjrt::TensorType> inputs, results;
  compile::CompileOptions options;
};

Case read_case(const fs::path& directory, int partitions) {
  Case c{.directory = directory, .options = {.num_partitions = partitions}};
  std::ifstream meta(directory / "meta.txt");
  std::string word, propagate;
  std::size_t inputs = 0, results = 0;
  meta >> word >> inputs >> word >> results >> word >> propagate;
  for (char bit : propagate)
    if (bit != '-') c.options.propagate_to_results.push_back(bit == '1');
  for (std::size_t i = 0; i < inputs + results; ++i) {
    std::size_t rank = 0;
    meta >> word >> rank;
    pjrt::TensorType type{dtype_from_name(word), std::vector<std::int64_t>(rank)};
    for (auto& d : type.dims) meta >> d;
    (i < inputs ? c.inputs : c.results).push_back(type);
  }
  return c;
}

std::string to_text(const std::vector<pjrt::TensorType>& types) {
  std::string out;
  for (const auto& type : types) {
    out += fmt::format(" {}[", short_name(type.dtype));
    for (auto d : type.dims) out += fmt::format("{} ", d);
    out += "]";
  }
  return out;
}

class Process {
 public:
  Process(collectives::Engine& engine, int rank, int processes, int devices, compile::Route route, bool background)
      : engine_(engine),
        rank_(rank),
        partitions_(processes * devices),
        devices_(devices),
        route_(route),
        background_(background),
        plugin_(pjrt::Plugin::load(pjrt::find_cpu_plugin())),
        partitioner_(pjrt::Client::create(plugin_, {.cpu_device_count = partitions_})),
        client_(pjrt::Client::create(plugin_, {.cpu_device_count = devices})) {
    runtime::register_collective_handlers(plugin_);
  }

  void run(const fs::path& directory) {
    Case c = read_case(directory, partitions_);
    // A program that one process cannot compile, none can; so their launch numbers stay equal.
    launch_ += kLaunches;
    auto program = compile::partition(*partitioner_, read_file(directory / "program.mlir"), c.options,
                                      {.background = background_}, route_);
    if (program.parameters != c.inputs || program.results != c.results)
      throw_error(ErrorCode::compile, "run_programs", "the signature is{} ->{}, not{} ->{}",
                  to_text(program.parameters), to_text(program.results), to_text(c.inputs), to_text(c.results));
    auto executable = compile::inject(*client_, program, {}, route_);
    auto collective = std::make_shared<runtime::CollectiveProgram>(engine_, kMesh);
    std::vector<std::vector<pjrt::Buffer>> results;
    for (int i = 0; i < kLaunches; ++i) results = launch(c, executable, collective, launch_ + i);
    for (int d = 0; d < devices_; ++d)
      for (std::size_t k = 0; k < results[d].size(); ++k) {
        std::string bytes(byte_size(c.results[k]), '\0');
        results[d][k].to_host(std::as_writable_bytes(std::span(bytes))).await_for(30s);
        write_file(directory / fmt::format("result{}_{}.bin", k, partition_of(d)), bytes);
      }
  }

  static constexpr std::uint64_t kMesh = 1;

 private:
  int partition_of(int device) const { return rank_ * devices_ + device; }
  static std::size_t byte_size(const pjrt::TensorType& type) {
    std::size_t bytes = itemsize(type.dtype);
    for (auto d : type.dims) bytes *= static_cast<std::size_t>(d);
    return bytes;
  }

  std::vector<std::vector<pjrt::Buffer>> launch(const Case& c, const pjrt::LoadedExecutable& executable,
                                                const std::shared_ptr<runtime::CollectiveProgram>& collective,
                                                std::uint64_t number) {
    std::vector<std::vector<pjrt::Buffer>> results(devices_);
    std::vector<std::exception_ptr> errors(devices_);
    auto guarded = [&](int d, auto&& body) {
      try {
        body();
      } catch (...) {
        errors[d] = std::current_exception();
      }
    };
    auto start = [&](int d) {
      const pjrt::Device& device = *client_->addressable_devices()[d];
      std::vector<pjrt::Buffer> inputs;
      std::vector<PJRT_Buffer*> in, out(executable.output_count());
      for (std::size_t k = 0; k < c.inputs.size(); ++k) {
        std::string bytes = read_file(c.directory / fmt::format("input{}_{}.bin", k, partition_of(d)));
        inputs.push_back(client_->buffer_from_host(
            {.data = bytes.data(), .dtype = c.inputs[k].dtype, .dims = c.inputs[k].dims}, device));
        in.push_back(inputs.back().raw());
      }
      runtime::launch_partition(plugin_, executable, collective, number, partition_of(d), device, in, out.data());
      for (PJRT_Buffer* b : out) results[d].emplace_back(client_->api(), b);
    };
    auto finish = [&](int d) {
      for (const pjrt::Buffer& b : results[d]) b.ready().await_for(30s);
    };
    if (background_) {
      for (int d = 0; d < devices_; ++d) guarded(d, [&] { start(d); });
      for (int d = 0; d < devices_; ++d) guarded(d, [&] { finish(d); });
    } else {
      std::vector<std::thread> threads;
      for (int d = 0; d < devices_; ++d)
        threads.emplace_back([&, d] {
          guarded(d, [&] {
            start(d);
            finish(d);
          });
        });
      for (auto& thread : threads) thread.join();
    }
    for (auto& error : errors)
      if (error) std::rethrow_exception(error);
    return results;
  }

  collectives::Engine& engine_;
  int rank_, partitions_, devices_;
  compile::Route route_;
  bool background_;
  std::uint64_t launch_ = 0;
  const pjrt::Plugin& plugin_;
  std::unique_ptr<pjrt::Client> partitioner_, client_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fmt::print(stderr, "usage: run_programs DIRECTORY RANK PROCESSES DEVICES ROUTE LAUNCH\n");
    return 2;
  }
  try {
    fs::path root = argv[1];
    int rank = std::stoi(argv[2]), processes = std::stoi(argv[3]), devices = std::stoi(argv[4]);
    auto route = argv[5] == std::string_view("hook") ? compile::Route::hook : compile::Route::whole_compile;
    DirectoryStore store(root / "store");
    auto transport = collectives::connect_gloo(store, rank, processes, std::chrono::steady_clock::now() + 30s, {});
    collectives::Engine engine(std::move(transport), {.deadline = 20s});
    collectives::Communicator mesh{.id = Process::kMesh, .processes = {}};
    for (int p = 0; p < processes * devices; ++p) mesh.processes.push_back(p / devices);
    engine.add_communicator(mesh);
    Process process(engine, rank, processes, devices, route, argv[6] == std::string_view("background"));
    std::vector<fs::path> programs;
    for (const auto& entry : fs::directory_iterator(root))
      if (fs::exists(entry.path() / "program.mlir")) programs.push_back(entry.path());
    std::sort(programs.begin(), programs.end());
    for (const fs::path& program : programs) {
      try {
        process.run(program);
      } catch (const Error& error) {
        write_file(program / fmt::format("error_{}.txt", rank), error.what());
      }
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "run_programs: {}\n", error.what());
    return 1;
  }
}
