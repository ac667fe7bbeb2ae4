#include "lockstep/ops/replica_groups.h"

#include <algorithm>

#include "lockstep/ops/axes.h"
#include "lockstep/support/error.h"

namespace lockstep {

std::vector<Ints> replica_groups(const LowerContext& ctx, const char* operation, const std::vector<std::string>& axes,
                                 const std::optional<std::vector<Ints>>& axis_index_groups) {
  int rank = static_cast<int>(ctx.axes.size());
  Ints chosen;
  for (auto& name : axes) {
    auto at = std::find_if(ctx.axes.begin(), ctx.axes.end(), [&](const LowerAxis& a) { return a.name == name; });
    if (at == ctx.axes.end())
      throw_error(ErrorCode::axis, operation, "there is no mesh axis \"{}\" in the program being compiled", name);
    chosen.push_back(at - ctx.axes.begin());
  }
  Ints sizes, strides = Shape::filled(static_cast<std::size_t>(rank), 1);
  for (auto& a : ctx.axes) sizes.push_back(a.size);
  for (int i = rank - 2; i >= 0; --i)
    strides[static_cast<std::size_t>(i)] =
        strides[static_cast<std::size_t>(i) + 1] * sizes[static_cast<std::size_t>(i) + 1];
  // All offsets that the indices along some axes give, the last axis fastest.
  auto offsets = [&](const Ints& along) {
    Ints out{0};
    for (auto axis : along) {
      Ints next;
      for (auto base : out)
        for (std::int64_t i = 0; i < sizes[static_cast<std::size_t>(axis)]; ++i)
          next.push_back(base + i * strides[static_cast<std::size_t>(axis)]);
      out = next;
    }
    return out;
  };
  std::vector<Ints> groups;
  Ints members = offsets(chosen);
  for (auto base : offsets(remaining(rank, chosen))) {
    Ints group;
    for (auto m : members) group.push_back(base + m);
    if (!axis_index_groups) {
      groups.push_back(group);
      continue;
    }
    for (auto& part : *axis_index_groups) groups.push_back(take(group, part));
  }
  return groups;
}

std::string table_attribute(const std::vector<Ints>& rows) {
  std::size_t width = 0;
  for (auto& row : rows) width = std::max(width, row.size());
  std::string text;
  for (Ints row : rows) {
    row.resize(width, -1);
    text += (text.empty() ? "" : ", ") + int_list(row);
  }
  return fmt::format("dense<[{}]> : tensor<{}x{}xi64>", text, rows.size(), width);
}

}  // namespace lockstep
