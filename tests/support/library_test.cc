#include "lockstep/support/library.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace lockstep::support {
namespace {

namespace fs = std::filesystem;

TEST(Library, DirectoryIsThatOfTheRunningProgram) {
  EXPECT_EQ(library_directory(), fs::canonical("/proc/self/exe").parent_path().string());
}

TEST(Library, FindsThePluginOfTheBuildTree) {
  fs::path plugins = bundled_plugin_directory();
  ASSERT_FALSE(plugins.empty());
  EXPECT_TRUE(plugins.is_absolute());
  EXPECT_TRUE(fs::is_regular_file(plugins / "pjrt_c_api_cpu_plugin.so"));
}

}  // namespace
}  // namespace lockstep::support
