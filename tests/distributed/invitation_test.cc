#include "lockstep/distributed/invitation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/identity.h"

namespace lockstep::distributed {
namespace {

using testing::MatchesRegex;

TEST(InvitationTest, OnOneMachineTheLoopbackInterfaceDoes) {
  Invitation i = make_invitation(true, "");
  EXPECT_THAT(i.address, MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_EQ(i.bind_address, i.address);
  EXPECT_THAT(i.token, MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(i.token, make_invitation(true, "").token);
}

TEST(InvitationTest, AHostThatIsNamedIsTold) {
  Invitation i = make_invitation(true, "node1-ib");
  Address address = parse_address(i.address, "test");
  EXPECT_EQ(address.host, "node1-ib");
  EXPECT_EQ(i.bind_address, "[::]:" + std::to_string(address.port));
}

TEST(InvitationTest, ToOtherMachinesAllAddressesAreToldAndOneIsThisMachines) {
  Invitation i = make_invitation(false, "");
  auto addresses = parse_addresses(i.address, "test");
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(addresses.back().host, local_identity().host);
  for (auto& a : addresses) EXPECT_FALSE(a.host.starts_with("127.") || a.host == "::1") << a.host;
  Place place{.address = i.address, .bind_address = i.bind_address, .count = 2};
  settle_coordinator(place);
  EXPECT_EQ(place.bind_address, i.bind_address);
  EXPECT_EQ(place.address, addresses.front().text());
}

TEST(InvitationTest, TheTextSaysItAll) {
  Invitation i{"a:1,[::1]:2", "[::]:3", "secret"};
  Invitation j = Invitation::parse(i.text());
  EXPECT_EQ(j.address, i.address);
  EXPECT_EQ(j.bind_address, i.bind_address);
  EXPECT_EQ(j.token, i.token);
  for (const char* bad : {"", "a:1", "a:1\nb:2", "a:1\nb:2\nc\nd"}) EXPECT_THROW(Invitation::parse(bad), Error) << bad;
}

TEST(InvitationTest, TheErrorOfAll) {
  Outcome fine, late{true, ErrorCode::timeout, "nobody came"}, wrong{true, ErrorCode::plugin, "no plugin"};
  Error e = combined_error("mpi::initialize", {late, wrong, late, fine});
  EXPECT_EQ(e.code(), ErrorCode::plugin) << "the others have only waited";
  EXPECT_EQ(e.operation(), "mpi::initialize");
  EXPECT_EQ(e.message(), "processes 0, 2: nobody came\n  process 1: no plugin");
  EXPECT_EQ(combined_error("x", {late, late}).message(), "nobody came") << "what all say is nobody's in particular";
  EXPECT_EQ(combined_error("x", {late, fine}).code(), ErrorCode::timeout);
}

}  // namespace
}  // namespace lockstep::distributed
