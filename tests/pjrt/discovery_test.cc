#include "lockstep/pjrt/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// An environment without plugins but the library's own, and a directory that is gone afterwards.
class Discovery : public testing::Test {
 protected:
  Discovery() : directory_(fs::path(testing::TempDir()) / fmt::format("discovery-{}", getpid())) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    for (const char* name : {"PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
                             "CONDA_PREFIX", "LOCKSTEP_PLUGIN_PATH", "LOCKSTEP_CPU_PLUGIN"})
      set(name, nullptr);
    set("HOME", directory_.c_str());
    others_ = find_plugins().size();  // installed on this machine
  }
  ~Discovery() override {
    for (auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    fs::remove_all(directory_);
  }
  void set(const char* name, const char* value) {
    const char* before = std::getenv(name);
    before_.try_emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  fs::path file(const fs::path& path, const std::string& text) {
    fs::create_directories((directory_ / path).parent_path());
    std::ofstream(directory_ / path) << text;
    return directory_ / path;
  }
  // A package's library; a link, since it is looked into.
  fs::path library(const fs::path& path, const std::string& stub) {
    fs::create_directories((directory_ / path).parent_path());
    fs::create_symlink(LOCKSTEP_STUBS "/stub_" + stub + ".so", directory_ / path);
    return directory_ / path;
  }
  // The place of a platform; fails the test if there is none.
  PluginPlace place(const std::string& platform) {
    for (const PluginPlace& p : find_plugins())
      if (p.platform == platform) return p;
    ADD_FAILURE() << "no place for " << platform;
    return {};
  }

  fs::path directory_;
  std::size_t others_ = 0;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(Discovery, TheCpuPluginIsAlwaysThereAndLast) {
  auto found = find_plugins();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().platform, "cpu");
  EXPECT_EQ(found.back().path, find_cpu_plugin());
  set("LOCKSTEP_CPU_PLUGIN", "/no/such/cpu.so");
  EXPECT_EQ(find_plugins().back().path, "");
  EXPECT_THAT(find_plugins().back().problem, HasSubstr("/no/such/cpu.so (LOCKSTEP_CPU_PLUGIN)"));
}

TEST_F(Discovery, NamesAndPathsOfTheEnvironmentComeFirst) {
  set("PJRT_NAMES_AND_LIBRARY_PATHS", "one:/a/one.so, two:/b/two.so,three");
  auto found = find_plugins();
  ASSERT_EQ(found.size(), others_ + 3);
  EXPECT_EQ(found[0].platform, "one");
  EXPECT_EQ(found[0].path, "/a/one.so");
  EXPECT_EQ(found[1].platform, "two");
  EXPECT_EQ(found[2].platform, "three");
  EXPECT_EQ(found[2].path, "");
  EXPECT_EQ(found[2].problem, "'three' is not of the form NAME:PATH");
}

TEST_F(Discovery, EntryPointsOfInstalledPackages) {
  fs::path site = "venv/lib/python3.11/site-packages";
  file(site / "jax_cuda12_pjrt-0.10.2.dist-info/entry_points.txt",
       "[console_scripts]\nx = y:z\n\n[jax_plugins]\nxla_cuda12 = jax_plugins.xla_cuda12\n[other]\nq = r\n");
  fs::path cuda = library(site / "jax_plugins/xla_cuda12/xla_cuda_plugin.so", "newer");
  file(site / "jax_plugins/xla_cuda12/a_helper.so", "not a library");
  file(site / "empty-1.0.dist-info/entry_points.txt", "[jax_plugins]\nempty = empty_package:initialize\n");
  file(site / "empty_package/__init__.py", "");
  fs::path no_entry = library(site / "jax_plugins/mine/pjrt.so", "newer");  // a namespace package alone
  set("VIRTUAL_ENV", (directory_ / "venv").c_str());
  EXPECT_EQ(find_plugins().size(), others_ + 3);
  EXPECT_EQ(place("cuda").path, cuda);
  EXPECT_EQ(place("cuda").source, "package jax_cuda12_pjrt");
  EXPECT_EQ(place("mine").path, no_entry);
  EXPECT_EQ(place("mine").source, "module jax_plugins.mine");
  EXPECT_EQ(place("empty").path, "");
  EXPECT_THAT(place("empty").problem, HasSubstr("empty_package exports GetPjrtApi"));
  set("VIRTUAL_ENV", nullptr);
  set("PYTHONPATH", ("/nowhere:" + (directory_ / site).string()).c_str());
  EXPECT_EQ(place("cuda").path, cuda);
}

TEST_F(Discovery, DirectoriesOfPlugins) {
  fs::path one = library("plugins/pjrt_c_api_gpu_plugin.so", "newer");
  fs::path two = library("plugins/pjrt-plugin-tt.so", "newer");
  library("plugins/something_else.so", "newer");
  set("LOCKSTEP_PLUGIN_PATH", ((directory_ / "plugins").string() + ":/no/such/directory").c_str());
  EXPECT_EQ(find_plugins().size(), others_ + 3);
  EXPECT_EQ(place("gpu").path, one);
  EXPECT_EQ(place("tt").path, two);
  EXPECT_EQ(place("?").problem, "no such directory: /no/such/directory");
}

TEST(Discovered, NamesOfPlatforms) {
  for (auto [name, platform] : {std::pair{"xla_cuda12", "cuda"},
                                {"xla_rocm7", "rocm"},
                                {"tpu", "tpu"},
                                {"pjrt_c_api_gpu_plugin.so", "gpu"},
                                {"libpjrt_cpu", "cpu"},
                                {"pjrt-plugin-tt", "tt"},
                                {"metal_plugin", "metal"},
                                {"mine2", "mine2"}})
    EXPECT_EQ(platform_of_name(name), platform) << name;
}

TEST(Discovered, ExportedSymbols) {
  EXPECT_TRUE(exports_symbol(LOCKSTEP_STUBS "/stub_newer.so", "GetPjrtApi"));
  EXPECT_FALSE(exports_symbol(LOCKSTEP_STUBS "/stub_newer.so", "GetPjrtApiToo"));
  EXPECT_FALSE(exports_symbol("/no/such/file", "GetPjrtApi"));
  std::string text = testing::TempDir() + "/short_elf";
  std::ofstream(text) << "\177ELF\2and no more";
  EXPECT_FALSE(exports_symbol(text, "GetPjrtApi"));
}

}  // namespace
}  // namespace lockstep::pjrt
