#include "lockstep/support/tls.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CertificateTest, CarriesNames) {
  EXPECT_TRUE(carries_name({"a.example", "lockstep"}, "", "lockstep"));
  EXPECT_TRUE(carries_name({"LockStep"}, "", "lockstep"));
  EXPECT_FALSE(carries_name({"a.example"}, "lockstep", "lockstep")) << "the common name counts only without DNS names";
  EXPECT_TRUE(carries_name({}, "lockstep", "lockstep"));
  EXPECT_FALSE(carries_name({}, "", "lockstep"));
  EXPECT_TRUE(carries_name({"*.gangs.example"}, "", "one.gangs.example"));
  EXPECT_FALSE(carries_name({"*.gangs.example"}, "", "one.two.gangs.example"));
  EXPECT_FALSE(carries_name({"*.gangs.example"}, "", "gangs.example"));
  EXPECT_FALSE(carries_name({"*.gangs.example"}, "", ".gangs.example"));
  EXPECT_FALSE(carries_name({"*"}, "", "lockstep"));
}

TEST(SecretTest, EqualOrNot) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "bbc", "abcd"})
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
}

}  // namespace
}  // namespace lockstep
