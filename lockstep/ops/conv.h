// Convolutions in any number of spatial dimensions.
#pragma once

#include <optional>
#include <string>

#include "lockstep/core/primitive.h"
#include "lockstep/ops/dot.h"
#include "lockstep/ops/window.h"

namespace lockstep {

extern const Primitive conv_general_dilated_p;

namespace lax {

// Which dimension of each array is what. lhs and out: batch, feature, spatial...; rhs: output feature, input feature,
// spatial...
struct ConvDimensionNumbers {
  Ints lhs_spec, rhs_spec, out_spec;
  bool operator==(const ConvDimensionNumbers&) const = default;
};
void print_param(Printer& p, const ConvDimensionNumbers& v);
std::size_t hash_param(const ConvDimensionNumbers& v);
// From letters: N and C are batch and feature of lhs and out, O and I output and input feature of rhs; the others are
// spatial and must agree: {"NHWC", "HWIO", "NHWC"}.
struct ConvLayouts {
  std::string lhs, rhs, out;
};
// Throws Error(invalid_argument) for layouts that do not fit.
ConvDimensionNumbers conv_dimension_numbers(int rank, const std::optional<ConvLayouts>& layouts);

struct ConvOptions {
  OptionsTag tag{};
  std::optional<Ints> lhs_dilation = std::nullopt;  // > 1: a fractional stride
  std::optional<Ints> rhs_dilation = std::nullopt;
  std::optional<ConvLayouts> dimension_numbers = std::nullopt;  // absent: NC..., OI..., NC...
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  std::optional<PrecisionPair> precision = std::nullopt;
  std::optional<DType> preferred_element_type = std::nullopt;
};
// Window strides and padding are those of the spatial dimensions, in rhs's order.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const Ints& window_strides, const Padding& padding,
                           const ConvOptions& options = {});
// NC... with OI... .
Array conv(const Operand& lhs, const Operand& rhs, const Ints& window_strides, const Padding& padding,
           const DotOptions& options = {});

struct ConvTransposeOptions {
  OptionsTag tag{};
  std::optional<Ints> rhs_dilation = std::nullopt;
  std::optional<ConvLayouts> dimension_numbers = std::nullopt;  // absent: NHWC, HWIO, NHWC
  bool transpose_kernel = false;  // reverses the kernel and swaps its channels: the gradient of a convolution
  std::optional<PrecisionPair> precision = std::nullopt;
  std::optional<DType> preferred_element_type = std::nullopt;
};
// "SAME" and "VALID" are meant as padding of the convolution that this one undoes; pairs are padding of this one.
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Ints& strides, const Padding& padding,
                     const ConvTransposeOptions& options = {});

}  // namespace lax
}  // namespace lockstep
