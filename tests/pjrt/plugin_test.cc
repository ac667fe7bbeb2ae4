#include "lockstep/pjrt/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/pjrt/api.h"
#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

using testing::HasSubstr;

// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Plugin, LoadsOncePerFile) {
  const Plugin& plugin = cpu_plugin();
  EXPECT_EQ(plugin.major_version(), 0);
  EXPECT_GE(plugin.minor_version(), 81);
  EXPECT_NE(plugin.attributes().find("stablehlo_current_version"), plugin.attributes().end());
  std::filesystem::path path = find_cpu_plugin();
  EXPECT_EQ(&Plugin::load(path.parent_path() / "." / path.filename()), &plugin);
}

TEST(Plugin, FindsExtensionsByTypeAndSize) {
  const Plugin& plugin = cpu_plugin();
  constexpr int ffi = 5, unassigned = 4711;
  EXPECT_NE(plugin.extension(ffi, sizeof(PJRT_Extension_Base)), nullptr);
  EXPECT_EQ(plugin.extension(ffi, 1 << 20), nullptr);
  EXPECT_EQ(plugin.extension(unassigned, sizeof(PJRT_Extension_Base)), nullptr);
}

TEST(Plugin, NamesWhatIsWrongWithAFile) {
  Error missing = error_of([] { Plugin::load("/no/such/plugin.so"); });
  EXPECT_EQ(missing.code(), ErrorCode::plugin);
  EXPECT_THAT(missing.what(), HasSubstr("no such file: /no/such/plugin.so"));

  std::string text = testing::TempDir() + "/not_a_library.so";
  std::ofstream(text) << "hello";
  Error garbage = error_of([&] { Plugin::load(text); });
  EXPECT_EQ(garbage.code(), ErrorCode::plugin);
  EXPECT_THAT(garbage.what(), HasSubstr("cannot be loaded"));

  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::strtol), &info), 0);
  Error other = error_of([&] { Plugin::load(info.dli_fname); });
  EXPECT_EQ(other.code(), ErrorCode::plugin);
  EXPECT_THAT(other.what(), HasSubstr("does not export GetPjrtApi"));
}

TEST(Plugin, TheUsersCpuPluginIsUsedOrRefused) {
  std::string real = find_cpu_plugin();
  {
    Environment set("LOCKSTEP_CPU_PLUGIN", real.c_str());
    EXPECT_EQ(find_cpu_plugin(), real);
  }
  Environment set("LOCKSTEP_CPU_PLUGIN", "/no/such/cpu.so");
  Error error = error_of([] { find_cpu_plugin(); });
  EXPECT_EQ(error.code(), ErrorCode::plugin);
  EXPECT_THAT(error.what(), HasSubstr("/no/such/cpu.so (LOCKSTEP_CPU_PLUGIN)"));
}

// A plugin of one function less than the header knows: the table ends in the middle of its pointer.
TEST(Plugin, AFunctionMustLieWhollyInsideTheTable) {
  static PJRT_Api api;
  std::memset(&api, 0, sizeof api);
  api.struct_size = offsetof(PJRT_Api, PJRT_Client_Create);
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.minor_version = 7;
  static bool called = false;
  api.PJRT_Client_Create = [](PJRT_Client_Create_Args*) -> PJRT_Error* {
    called = true;
    return nullptr;
  };
  using CreateCall = LS_PJRT(PJRT_Client_Create);
  const Plugin& plugin = Plugin::from_api(&api, "short");
  for (std::size_t inside : {0, 1, 7}) {
    api.struct_size = offsetof(PJRT_Api, PJRT_Client_Create) + inside;
    EXPECT_FALSE(CreateCall::available(&api));
    Error error = error_of([&] { Client::create(plugin); });
    EXPECT_EQ(error.code(), ErrorCode::plugin);
    EXPECT_EQ(error.operation(), "PJRT_Client_Create");
    EXPECT_THAT(error.what(), HasSubstr("0.7"));
    EXPECT_FALSE(called);
  }
  api.struct_size = offsetof(PJRT_Api, PJRT_Client_Create) + sizeof(void*);
  EXPECT_TRUE(CreateCall::available(&api));
  CreateCall()(&api);
  EXPECT_TRUE(called);
  api.PJRT_Client_Create = nullptr;
  EXPECT_FALSE(CreateCall::available(&api));
}

TEST(Plugin, AnotherMajorVersionIsRefused) {
  static PJRT_Api api;
  std::memset(&api, 0, sizeof api);
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = 3;
  Error error = error_of([] { Plugin::from_api(&api, "from the future"); });
  EXPECT_EQ(error.code(), ErrorCode::plugin);
  EXPECT_THAT(error.what(), HasSubstr("from the future speaks PJRT C API 3.0"));
  static PJRT_Api tiny;
  tiny.struct_size = 16;
  EXPECT_THAT(error_of([] { Plugin::from_api(&tiny, "tiny"); }).what(), HasSubstr("16 bytes"));
}

// The table of a plugin that spans processes, as far as the key-value callbacks go: it stores a value, reads it back,
// and asks for one that is not there.
TEST(Client, LendsThePluginAKeyValueStore) {
  static std::string seen;
  static PJRT_CallbackError make_error = [](PJRT_Error_Code code, const char* message, std::size_t size) {
    seen += fmt::format("error {}: {};", static_cast<int>(code), std::string_view(message, size));
    return reinterpret_cast<PJRT_Error*>(&seen);
  };
  static PJRT_Api api;
  std::memset(&api, 0, sizeof api);
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.PJRT_Client_Create = [](PJRT_Client_Create_Args* args) -> PJRT_Error* {
    PJRT_KeyValuePutCallback_Args put{PJRT_KeyValuePutCallback_Args_STRUCT_SIZE, nullptr, "key!", 3, "value!", 5};
    put.callback_error = &make_error;
    put.user_arg = args->kv_put_user_arg;
    EXPECT_EQ(args->kv_put_callback(&put), nullptr);
    PJRT_KeyValueGetCallback_Args get{PJRT_KeyValueGetCallback_Args_STRUCT_SIZE, nullptr, "key!", 3, 250};
    get.callback_error = &make_error;
    get.user_arg = args->kv_get_user_arg;
    EXPECT_EQ(args->kv_get_callback(&get), nullptr);
    seen += std::string(get.value, get.value_size) + ";";
    get.value_deleter_callback(get.value);
    get.key = "none";
    get.key_size = 4;
    EXPECT_NE(args->kv_get_callback(&get), nullptr);
    PJRT_KeyValueTryGetCallback_Args try_get{PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE, nullptr, "none", 4};
    try_get.callback_error = &make_error;
    try_get.user_arg = args->kv_try_get_user_arg;
    EXPECT_NE(args->kv_try_get_callback(&try_get), nullptr);
    return reinterpret_cast<PJRT_Error*>(&seen);
  };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = "enough";
    args->message_size = 6;
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = PJRT_Error_Code_UNAVAILABLE;
    return nullptr;
  };
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
  std::map<std::string, std::string> values;
  KeyValueStore store{
      .get = [&](const std::string& key, std::chrono::milliseconds timeout) -> std::string {
        if (auto it = values.find(key); it != values.end()) return it->second;
        throw_error(ErrorCode::timeout, "get", "waited {} ms", timeout.count());
      },
      .put = [&](const std::string& key, const std::string& value) { values[key] = value; },
      .try_get = [&](const std::string&) { return std::optional<std::string>(); },
  };
  Error error = error_of([&] { Client::create(Plugin::from_api(&api, "spanning"), {.store = store}); });
  EXPECT_EQ(error.code(), ErrorCode::peer);
  EXPECT_STREQ(error.what(), "PJRT_Client_Create: enough");
  EXPECT_EQ(seen, "value;error 4: get: waited 250 ms;error 5: no such key: none;");
}

}  // namespace
}  // namespace lockstep::pjrt
