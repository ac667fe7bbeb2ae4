// Every mistake a user makes has an error that names the operation, the shapes, and the user's line in this file.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace {

namespace ls = lockstep;
namespace np = ls::numpy;
namespace lax = ls::lax;
using ls::Array, ls::ErrorCode, ls::P;

// Runs f, which must throw an Error of this code; all `parts` must be in its text, and a line of this file.
template <class F>
void expect_error(ErrorCode code, std::initializer_list<const char*> parts, F f) {
  try {
    f();
  } catch (const ls::Error& e) {
    EXPECT_EQ(to_string(e.code()), std::string(to_string(code))) << e.what();
    for (const char* part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part << "\nin: " << e.what();
    EXPECT_NE(std::string(e.where().file_name()).find("errors_test.cc"), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

TEST(Errors, ShapeMismatch) {
  expect_error(ErrorCode::shape, {"add", "[3]", "[4]"}, [] { np::ones({3}) + np::ones({4}); });
  expect_error(ErrorCode::shape, {"matmul", "[2,3]", "[4,5]"}, [] {
    np::matmul(np::zeros({2, 3}), np::zeros({4, 5}));
  });
  expect_error(ErrorCode::shape, {"add", "[3]", "[4]"},
               [] { ls::jit([](Array x) { return x + np::ones({4}); })(np::ones({3})); });
}
TEST(Errors, DtypeMismatch) {
  expect_error(ErrorCode::dtype, {"add", "float32", "int32"},
               [] { lax::add(np::ones({3}), np::ones({3}, ls::DType::int32)); });
}
TEST(Errors, WrongAxis) {
  expect_error(ErrorCode::axis, {"sum", "2"}, [] { np::sum(np::ones({3, 4}), 2); });
  expect_error(ErrorCode::axis, {"vmap"}, [] { ls::vmap([](Array x) { return x; }, {.in_axes = 3})(np::ones({3})); });
  expect_error(ErrorCode::axis, {"psum", "\"i\""}, [] { lax::psum(np::ones({3}), "i"); });
}
TEST(Errors, Concretisation) {
  expect_error(ErrorCode::concretization, {"argument 0"}, [] { ls::jit([](Array x) { return x > 0 ? x : -x; })(1.0); });
  expect_error(ErrorCode::concretization, {"argument 1"},
               [] { ls::jit([](Array x, Array y) { return x * y.item<double>(); })(1.0, 2.0); });
}
TEST(Errors, EscapedTracer) {
  Array kept;
  ls::jit([&](Array x) { return kept = x * 2, x; })(1.0);
  expect_error(ErrorCode::escaped_tracer, {"errors_test.cc", "f32[]"}, [&] { kept + 1; });
}
TEST(Errors, NonScalarLoss) {
  expect_error(ErrorCode::shape, {"grad", "f32[3]", "scalar"},
               [] { ls::grad([](Array x) { return x * x; })(np::ones({3})); });
}
TEST(Errors, IntegerInputToGrad) {
  expect_error(ErrorCode::dtype, {"grad", "argument 0", "i32[]"}, [] { ls::grad([](Array x) { return x * 1.0; })(3); });
  struct M {
    Array w, n;
  };
  expect_error(ErrorCode::dtype, {"argument 0.n"}, [] { ls::grad([](M m) { return np::sum(m.w); })(M{1.0, 2}); });
}
TEST(Errors, MissingRule) {
  expect_error(ErrorCode::missing_rule, {"while_loop", "scan"}, [] {
    ls::grad([](Array x) {
      return lax::while_loop([](Array c) { return c < 10.0; }, [](Array c) { return c * 2; }, x);
    })(1.0);
  });
}
TEST(Errors, BadSpec) {
  auto mesh = ls::make_mesh({{"data", 1}});
  expect_error(ErrorCode::sharding, {"model", "data"}, [&] { ls::NamedSharding(mesh, P("model")); });
  ls::Mesh two({{"data", 2}}, {0, 1});
  ls::NamedSharding halves(two, P("data"));
  expect_error(ErrorCode::sharding, {"argument 0.w", "(3,)", "'data'", "P("}, [&] {
    struct M {
      Array w;
    };
    ls::jit([](M m) { return m.w; }, {.in_shardings = halves})(M{np::ones({3})});
  });
}
TEST(Errors, LoopCarriesKeepTheirTypes) {
  expect_error(ErrorCode::shape, {"scan", "f32[]", "f32[2]"}, [] {
    lax::scan([](Array c, Array x) { return std::pair{np::stack({c, x}), x}; }, 0.0, np::ones({3}));
  });
  expect_error(ErrorCode::shape, {"cond"}, [] {
    lax::cond(
        np::ones({2}) > 0, [](Array a) { return a; }, [](Array a) { return a; }, 1.0);
  });
}
TEST(Errors, TreesThatDiffer) {
  expect_error(ErrorCode::tree, {"tree::map"}, [] {
    std::vector<Array> a(2, np::ones({1})), b(3, np::ones({1}));
    ls::LocationScope scope(std::source_location::current());
    ls::tree::map([](Array x, Array y) { return x + y; }, a, b);
  });
}
TEST(Errors, EmptyArray) {
  expect_error(ErrorCode::invalid_argument, {}, [] {
    Array nothing;
    nothing + 1;
  });
}

}  // namespace
