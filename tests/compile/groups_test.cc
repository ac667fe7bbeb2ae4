#include "lockstep/compile/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

hlo::Instruction all_reduce() {
  hlo::Instruction i;
  i.set_name("all-reduce.7");
  i.set_opcode("all-reduce");
  i.set_channel_id(1);
  i.set_use_global_device_ids(true);
  return i;
}

void add_group(hlo::Instruction& i, std::initializer_list<std::int64_t> ids) {
  auto* group = i.mutable_collective_device_list()->add_replica_groups();
  for (auto id : ids) group->add_replica_ids(id);
}

hlo::MeshGroups& mesh(hlo::Instruction& i, std::initializer_list<std::int64_t> sizes) {
  auto& groups = *i.mutable_mesh_axes_replica_group_list();
  for (auto size : sizes) groups.mutable_mesh()->add_axes()->set_size(size);
  return groups;
}

hlo::AxisRef& axis(hlo::MeshGroups& groups, std::int64_t index) {
  auto* ref = groups.add_axes();
  ref->set_mesh_axis_index(index);
  return *ref;
}

void sub_axis(hlo::MeshGroups& groups, std::int64_t index, std::int64_t pre_size, std::int64_t size) {
  auto& part = *axis(groups, index).mutable_sub_axis_info();
  part.set_pre_size(pre_size);
  part.set_size(size);
}

std::string refusal(const hlo::Instruction& i, std::int64_t partitions) {
  try {
    decode_groups(i, partitions);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile);
    return error.what();
  }
  return "accepted";
}

TEST(Groups, Listed) {
  auto i = all_reduce();
  add_group(i, {0, 2});
  add_group(i, {3, 1});
  Groups groups = decode_groups(i, 4);
  EXPECT_THAT(groups.members, ElementsAre(0, 2, 3, 1));
  EXPECT_EQ(groups.size, 2);
}

TEST(Groups, DeprecatedList) {
  auto i = all_reduce();
  for (int g : {0, 1}) i.add_replica_groups()->add_replica_ids(g);
  EXPECT_THAT(decode_groups(i, 2).members, ElementsAre(0, 1));
  EXPECT_EQ(decode_groups(i, 2).size, 1);
}

TEST(Groups, NoListIsEverybody) {
  Groups groups = decode_groups(all_reduce(), 3);
  EXPECT_THAT(groups.members, ElementsAre(0, 1, 2));
  EXPECT_EQ(groups.size, 3);
}

TEST(Groups, Iota) {
  auto i = all_reduce();
  auto& list = *i.mutable_iota_collective_device_list();
  list.set_num_replica_groups(2);
  list.set_num_devices_per_group(4);
  for (int d : {2, 2, 2}) list.add_iota_reshape_dims(d);
  for (int p : {1, 0, 2}) list.add_iota_transpose_perm(p);
  EXPECT_THAT(decode_groups(i, 8).members, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(Groups, MeshAxes) {
  auto over_first = all_reduce(), over_second = all_reduce(), over_both = all_reduce(), reversed = all_reduce();
  axis(mesh(over_first, {2, 3}), 0);
  axis(mesh(over_second, {2, 3}), 1);
  auto& both = mesh(over_both, {2, 3});
  axis(both, 0);
  axis(both, 1);
  auto& back = mesh(reversed, {2, 3});
  axis(back, 1);
  axis(back, 0);
  EXPECT_THAT(decode_groups(over_first, 6).members, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(decode_groups(over_second, 6).members, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(decode_groups(over_second, 6).size, 3);
  EXPECT_EQ(decode_groups(over_both, 6).size, 6);
  EXPECT_THAT(decode_groups(reversed, 6).members, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Groups, MeshOfListedOrTransposedDevices) {
  auto listed = all_reduce(), transposed = all_reduce();
  auto& list = mesh(listed, {1, 2, 2});
  for (int d : {0, 3, 1, 2}) list.mutable_mesh()->add_device_ids(d);
  axis(list, 1);
  EXPECT_THAT(decode_groups(listed, 4).members, ElementsAre(0, 1, 3, 2));
  auto& iota = mesh(transposed, {2, 2});
  for (int d : {2, 2}) iota.mutable_mesh()->mutable_iota_transform()->add_reshape_dims(d);
  for (int p : {1, 0}) iota.mutable_mesh()->mutable_iota_transform()->add_transpose_perm(p);
  axis(iota, 1);
  EXPECT_THAT(decode_groups(transposed, 4).members, ElementsAre(0, 2, 1, 3));
}

// An axis of 8 as [2, 2, 2]: its parts, alone and two at once, in either order.
TEST(Groups, SubAxes) {
  auto major = all_reduce(), middle = all_reduce(), minor = all_reduce(), ends = all_reduce(), swapped = all_reduce();
  sub_axis(mesh(major, {8}), 0, 1, 2);
  sub_axis(mesh(middle, {8}), 0, 2, 2);
  sub_axis(mesh(minor, {8}), 0, 4, 2);
  auto& two = mesh(ends, {8});
  sub_axis(two, 0, 1, 2);
  sub_axis(two, 0, 4, 2);
  auto& back = mesh(swapped, {8});
  sub_axis(back, 0, 4, 2);
  sub_axis(back, 0, 1, 2);
  EXPECT_THAT(decode_groups(major, 8).members, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(decode_groups(middle, 8).members, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(decode_groups(minor, 8).members, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(decode_groups(ends, 8).members, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(decode_groups(swapped, 8).members, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
}

// What ids mean without a channel, or without global ids.
TEST(Groups, OfReplicas) {
  auto across_replicas = all_reduce();
  across_replicas.set_channel_id(0);
  EXPECT_THAT(decode_groups(across_replicas, 3).members, ElementsAre(0, 1, 2));
  EXPECT_EQ(decode_groups(across_replicas, 3).size, 1);
  auto and_partitions = all_reduce();
  and_partitions.set_use_global_device_ids(false);
  add_group(and_partitions, {0});
  EXPECT_EQ(decode_groups(and_partitions, 3).size, 3);
  auto all_to_all = and_partitions;
  all_to_all.set_opcode("all-to-all");
  all_to_all.clear_replica_group_list();
  add_group(all_to_all, {1, 0});
  EXPECT_THAT(decode_groups(all_to_all, 2).members, ElementsAre(1, 0));
}

TEST(Groups, Refusals) {
  auto uneven = all_reduce(), twice = all_reduce(), outside = all_reduce(), replicas = all_reduce();
  add_group(uneven, {0, 1});
  add_group(uneven, {2});
  EXPECT_THAT(refusal(uneven, 3), HasSubstr("all-reduce.7 has groups of unequal size"));
  add_group(twice, {0, 1});
  add_group(twice, {1, 2});
  EXPECT_THAT(refusal(twice, 4), HasSubstr("partition 1 is out of range or comes twice"));
  add_group(outside, {0, 4});
  EXPECT_THAT(refusal(outside, 4), HasSubstr("partition 4 is out of range"));
  replicas.set_channel_id(0);
  add_group(replicas, {0, 1});
  EXPECT_THAT(refusal(replicas, 4), HasSubstr("several replicas"));
}

TEST(Pairs, AreCheckedAndKeptInOrder) {
  hlo::Instruction permute;
  permute.set_name("collective-permute.1");
  permute.set_opcode("collective-permute");
  permute.set_channel_id(1);
  auto add = [&](std::int64_t source, std::int64_t target) {
    auto* pair = permute.add_source_target_pairs();
    pair->set_source(source);
    pair->set_target(target);
  };
  add(0, 2);
  add(3, 3);
  EXPECT_THAT(decode_pairs(permute, 4), ElementsAre(0, 2, 3, 3));
  EXPECT_THROW(decode_pairs(permute, 3), Error);
  add(1, 2);
  EXPECT_THROW(decode_pairs(permute, 4), Error);
  hlo::Instruction of_replicas;
  of_replicas.add_source_target_pairs();
  EXPECT_THAT(decode_pairs(of_replicas, 2), ElementsAre(0, 0, 1, 1));
}

}  // namespace
}  // namespace lockstep::compile
