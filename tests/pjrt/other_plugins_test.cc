// The CPU plugins of other versions that set-up brings for the tests, beside the library's own in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/pjrt/ffi.h"
#include "lockstep/pjrt/transform.h"
#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

struct Version {
  const char* path;
  int minor;
  bool ffi, hook;
};
const Version kVersions[] = {{LOCKSTEP_TEST_PLUGINS "/api-0.106/libpjrt_cpu.so", 106, true, false},
                             {LOCKSTEP_TEST_PLUGINS "/api-0.81/xla_cpu_pjrt.so", 81, false, false}};

TEST(OtherPlugins, SeveralInOneProcess) {
  std::vector<std::unique_ptr<Client>> clients;
  clients.push_back(Client::create(cpu_plugin(), {.cpu_device_count = 2}));
  for (const Version& v : kVersions) {
    const Plugin& plugin = Plugin::load(v.path);
    EXPECT_EQ(plugin.minor_version(), v.minor);
    EXPECT_EQ(has_ffi(plugin), v.ffi);
    EXPECT_EQ(has_transform_hook(plugin), v.hook);
    clients.push_back(Client::create(plugin, {.cpu_device_count = 2}));
    EXPECT_EQ(clients.back()->addressable_devices().size(), 2u);
  }
  std::vector<LoadedExecutable> executables;
  for (auto& client : clients) executables.push_back(client->compile(kAdd, kOptions));
  for (int round = 0; round < 2; ++round)  // turn by turn, none disturbs another
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Buffer a = put(*clients[i], std::vector<float>{1, 2, 3, 4}),
             b = put(*clients[i], std::vector<float>{10, 20, 30, 40});
      std::vector<const Buffer*> inputs{&a, &b};
      auto results = executables[i].execute(inputs);
      EXPECT_EQ(get<float>(results[0]), (std::vector<float>{11, 22, 33, 44})) << clients[i]->plugin().path();
    }
  // What one has made is not taken for another's.
  Error error = error_of([&] { clients[0]->compile("module @m { nonsense }", kOptions); });
  EXPECT_EQ(error.code(), ErrorCode::compile);
}

TEST(OtherPlugins, SerialisedProgramsComeBack) {
  for (const Version& v : kVersions) {
    auto client = Client::create(Plugin::load(v.path), {.cpu_device_count = 1});
    LoadedExecutable again = client->deserialize(client->compile(kAdd, kOptions).serialize());
    Buffer a = put(*client, std::vector<float>{1, 2, 3, 4});
    std::vector<const Buffer*> inputs{&a, &a};
    EXPECT_EQ(get<float>(again.execute(inputs)[0]), (std::vector<float>{2, 4, 6, 8})) << v.path;
  }
}

}  // namespace
}  // namespace lockstep::pjrt
