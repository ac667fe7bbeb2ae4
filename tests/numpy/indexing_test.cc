// What the oracle cannot see: masks (whose results depend on values), errors, and the forms that indices are written
// in.
#include "lockstep/numpy/indexing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/host.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

namespace np = numpy;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::invalid_argument, "", "");
}
Array table() { return np::array({{0, 1, 2}, {10, 11, 12}, {20, 21, 22}}); }  // [r][c] = 10 r + c
std::vector<int> ints(const Array& a) { return to_vector<int>(a); }

TEST(Indexing, FormsOfIndices) {
  Array x = table(), i = np::array({2, 0}), one = 1;
  std::size_t row = 1;
  std::vector<Index> computed{1, slice(1, end)};
  EXPECT_THAT(ints(x[row]), ElementsAre(10, 11, 12));
  EXPECT_THAT(ints(x[one]), ElementsAre(10, 11, 12));
  EXPECT_THAT(ints(x[{-1, 0}]), ElementsAre(20));
  EXPECT_THAT(ints(x[i]), ElementsAre(20, 21, 22, 0, 1, 2));
  EXPECT_THAT(ints(x[slice(1)]), ElementsAre(0, 1, 2));
  EXPECT_THAT(ints(x[computed]), ElementsAre(11, 12));
  EXPECT_EQ((x[{dots, slice(1, end), newaxis}].shape()), Shape(3, 2, 1));
  EXPECT_THAT(ints(x.at(0).set(7)), ElementsAre(7, 7, 7, 10, 11, 12, 20, 21, 22));
  EXPECT_THAT(ints(x.at({i, 1}).add(100)), ElementsAre(0, 101, 2, 10, 11, 12, 20, 121, 22));
}

TEST(Indexing, MasksSelectWhereTheyHold) {
  Array x = table(), rows = np::array({true, false, true});
  Array cells = np::array({{false, true, false}, {false, false, true}, {true, false, false}});
  EXPECT_THAT(ints(x[rows]), ElementsAre(0, 1, 2, 20, 21, 22));
  EXPECT_THAT(ints(x[cells]), ElementsAre(1, 12, 20));
  EXPECT_THAT(ints(x[{slice(), rows}]), ElementsAre(0, 2, 10, 12, 20, 22));
  EXPECT_THAT(ints(x[{rows, np::array({2, 0})}]), ElementsAre(2, 20));
  EXPECT_THAT(ints(x[np::array({false, false, false})]), IsEmpty());
  EXPECT_THAT(ints(x.at(cells).set(-1)), ElementsAre(0, -1, 2, 10, 11, -1, -1, 21, 22));
  EXPECT_THAT(ints(x.at(rows).multiply(2)), ElementsAre(0, 2, 4, 10, 11, 12, 40, 42, 44));
}

TEST(Indexing, SingleBoolsMakeAnAxis) {
  EXPECT_EQ(table()[true].shape(), Shape(1, 3, 3));
  EXPECT_EQ(table()[false].shape(), Shape(0, 3, 3));
  EXPECT_EQ((table()[{0, true}].shape()), Shape(1, 3));
  EXPECT_THAT(ints(table().at({true, 0, 0}).set(5)[{0, 0}]), ElementsAre(5));
}

TEST(Indexing, PlacesOfNonzeroElements) {
  Array x = np::array({{0, 3, 0}, {4, 0, 5}});
  Arrays places = np::nonzero(x);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_THAT(ints(places[0]), ElementsAre(0, 1, 1));
  EXPECT_THAT(ints(places[1]), ElementsAre(1, 0, 2));
  EXPECT_THAT(ints(np::flatnonzero(x)), ElementsAre(1, 3, 5));
  EXPECT_EQ(np::argwhere(x).shape(), Shape(3, 2));
  EXPECT_THAT(ints(np::argwhere(x)), ElementsAre(0, 1, 1, 0, 1, 2));
}

TEST(Indexing, ErrorsSayWhatWouldBeRight) {
  Array x = table();
  EXPECT_EQ(error_of([&] { x[{0, 0, 0}]; }).code(), ErrorCode::shape);
  EXPECT_EQ(error_of([&] { x[{dots, dots}]; }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { x[np::array({0.5})]; }).code(), ErrorCode::dtype);
  EXPECT_EQ(error_of([&] { x[slice(none, none, 0)]; }).code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error_of([&] { x[np::array({true, false})]; }).message(), HasSubstr("mask"));
  EXPECT_THAT(error_of([&] { np::zeros({0, 2})[0]; }).message(), HasSubstr("empty"));
  EXPECT_THAT(error_of([&] { x.at(0).get({.mode = "raise"}); }).message(), HasSubstr("promise_in_bounds"));
  EXPECT_EQ(error_of([&] { x.at(0).set(np::array({1, 2})); }).code(), ErrorCode::shape);
  Error e = error_of([&] {
    AvalP in[] = {x.aval(), make_aval({3}, DType::bool_)};
    trace_to_jaxpr([](std::span<const Array> args) { return Arrays{args[0][args[1]]}; }, in, "jit(f)");
  });
  EXPECT_EQ(e.code(), ErrorCode::concretization);
  EXPECT_THAT(e.message(), AllOf(HasSubstr("bool[3]"), HasSubstr("where")));
}

}  // namespace
}  // namespace lockstep
