// The floor under warm dispatch: what one launch of a compiled program costs by the plugin's C API alone, and through
// lockstep/pjrt. Prints one line per number of leaves: "leaves 1: C API 2.10 us, lockstep/pjrt 2.15 us".
//
// The program adds one to each leaf (float32[8]); a launch's outputs are the next one's inputs, which are then
// destroyed; the last output is awaited inside the measured time. The least of several rounds counts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/pjrt/client.h"
#include "pjrt_c_api.h"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

std::string program(int leaves) {
  std::string in, out, results, body;
  for (int i = 0; i < leaves; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    in += fmt::format("{}%a{}: tensor<8xf32>", comma, i);
    out += fmt::format("{}tensor<8xf32>", comma);
    results += fmt::format("{}%r{}", comma, i);
    body += fmt::format("%r{0} = stablehlo.add %a{0}, %c : tensor<8xf32>\n", i);
  }
  return fmt::format(
      "module @m {{ func.func public @main({}) -> ({}) {{ %c = stablehlo.constant dense<1.0> : tensor<8xf32>\n{}"
      "return {} : {} }} }}",
      in, out, body, results, out);
}

std::vector<PJRT_Buffer*> inputs(pjrt::Client& client, int leaves) {
  std::vector<float> ones(8, 1);
  std::int64_t dims[] = {8};
  std::vector<PJRT_Buffer*> buffers;
  for (int i = 0; i < leaves; ++i)
    buffers.push_back(client
                          .buffer_from_host({.data = ones.data(), .dtype = DType::float32, .dims = dims},
                                            *client.addressable_devices()[0])
                          .release());
  return buffers;
}

template <class Step>
double microseconds(pjrt::Client& client, int leaves, Step step) {
  auto buffers = inputs(client, leaves);
  std::vector<PJRT_Buffer*> outputs(leaves);
  double best = 1e30;
  for (int round = 0; round < 9; ++round) {
    int n = leaves > 10 ? 1000 : 20000;
    auto start = Clock::now();
    for (int i = 0; i < n; ++i) {
      step(buffers, outputs);
      std::swap(buffers, outputs);
    }
    pjrt::Buffer last(client.api(), buffers[0]);
    last.ready().await_for(std::chrono::seconds(60));
    last.release();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count() / n);
  }
  for (PJRT_Buffer* buffer : buffers) pjrt::Buffer(client.api(), buffer);
  return best;
}

void check(const PJRT_Error* error) {
  if (error != nullptr) std::abort();
}

double by_c_api(pjrt::Client& client, PJRT_LoadedExecutable* executable, int leaves) {
  const PJRT_Api* api = client.api();
  return microseconds(client, leaves, [&](std::vector<PJRT_Buffer*>& in, std::vector<PJRT_Buffer*>& out) {
    PJRT_ExecuteOptions options{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_LoadedExecutable_Execute_Args execute{.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE};
    PJRT_Buffer* const* arguments = in.data();
    PJRT_Buffer** results = out.data();
    execute.executable = executable;
    execute.options = &options;
    execute.argument_lists = &arguments;
    execute.num_devices = 1;
    execute.num_args = in.size();
    execute.output_lists = &results;
    check(api->PJRT_LoadedExecutable_Execute(&execute));
    for (PJRT_Buffer* buffer : in) {
      PJRT_Buffer_Destroy_Args destroy{PJRT_Buffer_Destroy_Args_STRUCT_SIZE, nullptr, buffer};
      check(api->PJRT_Buffer_Destroy(&destroy));
    }
  });
}

double by_room(pjrt::Client& client, const pjrt::LoadedExecutable& executable, const pjrt::Launch& launch, int leaves) {
  return microseconds(client, leaves, [&](std::vector<PJRT_Buffer*>& in, std::vector<PJRT_Buffer*>& out) {
    executable.launch(in, out.data(), launch);
    for (PJRT_Buffer* buffer : in) pjrt::Buffer(client.api(), buffer);
  });
}

}  // namespace

int main() {
  auto client = pjrt::Client::create(pjrt::Plugin::load(pjrt::find_cpu_plugin()), {.cpu_device_count = 1});
  // CompileOptionsProto { executable_build_options { num_replicas: 1 num_partitions: 1 } }; portable ones are
  // launched on a named device.
  const std::string fixed = "\x1a\x04\x20\x01\x28\x01", portable = fixed + "\x20\x01";
  for (int leaves : {1, 100}) {
    auto executable = client->compile(program(leaves), fixed);
    auto movable = client->compile(program(leaves), portable);
    fmt::print("leaves {}: C API {:.2f} us, lockstep/pjrt {:.2f} us, portable {:.2f} us\n", leaves,
               by_c_api(*client, executable.raw(), leaves), by_room(*client, executable, {}, leaves),
               by_room(*client, movable, {.device = client->addressable_devices()[0]}, leaves));
  }
}
