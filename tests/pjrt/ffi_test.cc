#include "lockstep/pjrt/ffi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string call(const std::string& target, const std::string& config) {
  return fmt::format(R"(module @call {{
    func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {{
      %r = stablehlo.custom_call @{}(%a) {{api_version = 4 : i32, has_side_effect = true, backend_config = {{{}}}}}
          : (tensor<2x2xf32>) -> tensor<2x2xf32>
      return %r : tensor<2x2xf32>
    }} }})",
                     target, config);
}

struct Recorded {
  std::size_t arguments = 0, results = 0;
  std::vector<std::int64_t> dims, list, empty;
  std::size_t bytes = 0;
  std::int64_t number = 0;
  std::string text;
};
Recorded recorded;

void record(FfiCall& call) {
  FfiBuffer in = call.argument(0), out = call.result(0);
  recorded.arguments = call.argument_count();
  recorded.results = call.result_count();
  recorded.dims.assign(in.dims.begin(), in.dims.end());
  recorded.bytes = in.bytes;
  recorded.number = call.integer("number");
  recorded.text = call.text("text");
  auto list = call.integers("list"), empty = call.integers("empty");
  recorded.list.assign(list.begin(), list.end());
  recorded.empty.assign(empty.begin(), empty.end());
  EXPECT_EQ(in.dtype, DType::float32);
  std::reverse_copy(static_cast<float*>(in.data), static_cast<float*>(in.data) + 4, static_cast<float*>(out.data));
}

std::int64_t scale_type() { return register_user_data_type(cpu_plugin(), "scale"); }

void scale_later(FfiCall& call) {
  auto factor = *static_cast<float*>(call.user_data(scale_type()));
  FfiBuffer in = call.argument(0), out = call.result(0);
  FfiCompletion later = call.defer();
  std::thread([=] {
    std::this_thread::sleep_for(5ms);
    for (int i = 0; i < 4; ++i) static_cast<float*>(out.data)[i] = factor * static_cast<float*>(in.data)[i];
    later.done();
  }).detach();
}

void done_before_return(FfiCall& call) {
  FfiBuffer in = call.argument(0), out = call.result(0);
  FfiCompletion later = call.defer();
  std::memcpy(out.data, in.data, in.bytes);
  later.done();
}

void throws(FfiCall& call) { throw_error(ErrorCode::peer, "all_reduce", "process {} left in the night", 7); }

void fails_later(FfiCall& call) {
  FfiCompletion later = call.defer();
  std::thread([=] {
    std::this_thread::sleep_for(5ms);
    later.fail(Error(ErrorCode::timeout, "all_gather", "nobody came"));
  }).detach();
}

std::vector<Buffer> run(const std::string& program, PJRT_ExecuteContext* context = nullptr) {
  Buffer a = put<float>(cpu(), {1, 2, 3, 4}, {2, 2});
  auto out = cpu().compile(program, kOptions).execute(std::array<const Buffer*, 1>{&a}, {.context = context});
  out[0].ready().await_for(30s);
  return out;
}

TEST(Ffi, DecodesBuffersAndAttributes) {
  register_handler<record>(cpu_plugin(), "test_record");
  register_handler<record>(cpu_plugin(), "test_record");
  auto out =
      run(call("test_record", R"(text = "sum", number = -3 : i64, list = array<i64: 3, 1, 2>, empty = array<i64>)"));
  EXPECT_THAT(get<float>(out[0]), ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(recorded.arguments, 1u);
  EXPECT_EQ(recorded.results, 1u);
  EXPECT_THAT(recorded.dims, ElementsAre(2, 2));
  EXPECT_EQ(recorded.bytes, 16u);
  EXPECT_EQ(recorded.number, -3);
  EXPECT_EQ(recorded.text, "sum");
  EXPECT_THAT(recorded.list, ElementsAre(3, 1, 2));
  EXPECT_THAT(recorded.empty, ElementsAre());
  Error other = error_of([] { register_handler<throws>(cpu_plugin(), "test_record"); });
  EXPECT_THAT(other.what(), HasSubstr("test_record already has another handler"));
}

TEST(Ffi, AMissingAttributeIsNamed) {
  register_handler<record>(cpu_plugin(), "test_record");
  Error error = error_of([] { run(call("test_record", R"(text = "sum")")); });
  EXPECT_THAT(error.what(), HasSubstr("lacks the attribute 'number'"));
  error = error_of([] { run(call("test_record", R"(text = "sum", number = "three")")); });
  EXPECT_THAT(error.what(), HasSubstr("'number' of a custom call is not an integer"));
}

TEST(Ffi, DefersAndReadsUserData) {
  register_handler<scale_later>(cpu_plugin(), "test_scale_later");
  register_handler<done_before_return>(cpu_plugin(), "test_done_before_return");
  EXPECT_EQ(scale_type(), scale_type());
  float factor = 3;
  ExecuteContext context(cpu_plugin());
  context.add(scale_type(), &factor);
  EXPECT_THAT(get<float>(run(call("test_scale_later", ""), context.raw())[0]), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(get<float>(run(call("test_done_before_return", ""))[0]), ElementsAre(1, 2, 3, 4));
  ExecuteContext empty(cpu_plugin());
  Error without = error_of([&] { run(call("test_scale_later", ""), empty.raw()); });
  EXPECT_EQ(without.code(), ErrorCode::execution) << without.what();
}

TEST(Ffi, ErrorsArriveWholeWithTheirCode) {
  register_handler<throws>(cpu_plugin(), "test_throws");
  register_handler<fails_later>(cpu_plugin(), "test_fails_later");
  Error error = error_of([] { run(call("test_throws", "")); });
  EXPECT_THAT(error.what(), HasSubstr("all_reduce: process 7 left in the night"));
  EXPECT_EQ(error.code(), ErrorCode::peer) << error.what();
  error = error_of([] { run(call("test_fails_later", "")); });
  EXPECT_THAT(error.what(), HasSubstr("all_gather: nobody came"));
  EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
}

}  // namespace
}  // namespace lockstep::pjrt
