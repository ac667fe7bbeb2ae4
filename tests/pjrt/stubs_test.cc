// Plugins that misbehave give an Error with one reason; plugins that are merely unknown work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/pjrt/discovery.h"
#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

using testing::HasSubstr;

std::string stub(const std::string& kind) { return LOCKSTEP_STUBS "/stub_" + kind + ".so"; }

Error creation_of(const std::string& kind) {
  return error_of([&] { Client::create(Plugin::load(stub(kind))); });
}

TEST(Stubs, WhatAPluginThrowsIsAnError) {
  Error load = creation_of("throws_at_load");
  EXPECT_EQ(load.code(), ErrorCode::plugin);
  EXPECT_STREQ(load.what(), "GetPjrtApi: the plugin threw an exception: no license");
  EXPECT_THROW(Plugin::load(stub("throws_at_load")), Error);  // it is not remembered as loaded
  Error create = creation_of("throws");
  EXPECT_EQ(create.code(), ErrorCode::plugin);
  EXPECT_THAT(create.what(), HasSubstr("PJRT_Client_Create: the plugin threw an exception: no driver"));
}

TEST(Stubs, AMissingFunctionIsNamed) {
  Error error = creation_of("lacks");
  EXPECT_EQ(error.code(), ErrorCode::plugin);
  EXPECT_EQ(error.operation(), "PJRT_Client_Devices");
  EXPECT_THAT(error.what(), HasSubstr("the plugin does not have this function"));
}

TEST(Stubs, AnErrorKeepsItsWords) {
  Error error = creation_of("errors");
  EXPECT_EQ(error.operation(), "PJRT_Client_Create");
  EXPECT_EQ(error.message(), "no device of this kind;\nis the driver loaded?");
}

TEST(Stubs, ANewerPluginWorks) {
  const Plugin& plugin = Plugin::load(stub("newer"));
  EXPECT_EQ(plugin.minor_version(), 999);
  auto extensions = plugin.extensions();
  ASSERT_EQ(extensions.size(), 1u);
  EXPECT_EQ(extensions[0].name, "997");
  auto client = Client::create(plugin);
  EXPECT_EQ(client->platform_name(), "stub");
  ASSERT_EQ(client->addressable_devices().size(), 2u);
  EXPECT_EQ(client->devices()[1]->description(), "STUB_1");
  // Functions that it leaves out are missed when they are called.
  Error error = error_of([&] { put(*client, std::vector<float>{1}); });
  EXPECT_EQ(error.operation(), "PJRT_Client_BufferFromHostBuffer");
}

TEST(Stubs, TheRealPluginsExtensionsHaveNames) {
  std::vector<std::string> names;
  for (auto& e : cpu_plugin().extensions()) names.push_back(e.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"FFI", "Layouts", "XlaTransform"}));
}

}  // namespace
}  // namespace lockstep::pjrt
