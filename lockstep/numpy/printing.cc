#include "lockstep/numpy/printing.h"

#include <functional>
#include <ostream>

#include "lockstep/core/scalar.h"
#include "lockstep/numpy/float_text.h"
#include "lockstep/runtime/placement.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/trace/trace.h"

namespace lockstep::numpy {
namespace {

constexpr std::int64_t kThreshold = 1000, kEdge = 3;
constexpr int kLineWidth = 75;

using ElementText = std::function<std::string(std::int64_t)>;

Scalar element(DType dtype, const std::byte* data, std::int64_t i) {
  return Scalar::read(data + static_cast<std::size_t>(i) * itemsize(dtype), dtype);
}

// The offsets of the elements that are shown.
void collect(const Shape& shape, bool summary, std::size_t axis, std::int64_t offset, std::vector<std::int64_t>& out) {
  if (axis == shape.size()) return out.push_back(offset);
  for (std::int64_t i = 0; i < shape[axis]; ++i) {
    if (summary && shape[axis] > 2 * kEdge && i == kEdge) i = shape[axis] - kEdge;
    collect(shape, summary, axis + 1, offset * shape[axis] + i, out);
  }
}

ElementText element_text(DType dtype, const std::byte* data, const std::vector<std::int64_t>& shown, bool scalar) {
  auto at = [=](std::int64_t i) { return element(dtype, data, i); };
  if (dtype == DType::bool_)
    return [=](std::int64_t i) { return at(i).truth() ? (scalar ? "True" : " True") : "False"; };
  if (dtype == DType::bfloat16)
    return [=](std::int64_t i) { return bfloat16_text(static_cast<float>(at(i).as_double())); };
  if (is_integer(dtype)) {
    auto text = [=](std::int64_t i) {
      return is_unsigned_integer(dtype) ? std::to_string(at(i).as_uint()) : std::to_string(at(i).as_int());
    };
    std::size_t width = 0;
    for (std::int64_t i : shown) width = std::max(width, text(i).size());
    return [=](std::int64_t i) {
      std::string t = text(i);
      return std::string(width - t.size(), ' ') + t;
    };
  }
  std::vector<double> re, im;
  for (std::int64_t i : shown) {
    auto v = at(i).as_complex();
    re.push_back(v.real());
    im.push_back(v.imag());
  }
  FloatFormat real(re, real_type(dtype), false);
  if (!is_complex(dtype)) return [=](std::int64_t i) { return real(at(i).as_double()); };
  FloatFormat imaginary(im, real_type(dtype), true);
  return [=](std::int64_t i) {
    std::string text = imaginary(at(i).as_complex().imag());
    text.insert(text.find_last_not_of(' ') + 1, "j");
    return real(at(i).as_complex().real()) + text;
  };
}

std::string scalar_str(DType dtype, const Scalar& s) {
  if (dtype == DType::bool_) return s.truth() ? "True" : "False";
  if (dtype == DType::bfloat16) return bfloat16_text(static_cast<float>(s.as_double()));
  if (is_unsigned_integer(dtype)) return std::to_string(s.as_uint());
  if (is_integer(dtype)) return std::to_string(s.as_int());
  auto part = [&](double x) {
    std::string text = scalar_text(x, real_type(dtype));
    if (text.size() > 2 && text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  };
  if (!is_complex(dtype)) return scalar_text(s.as_double(), dtype);
  auto c = s.as_complex();
  std::string im = part(c.imag());
  if (c.real() == 0 && !std::signbit(c.real())) return im + "j";
  return "(" + part(c.real()) + (im[0] == '-' ? "" : "+") + im + "j)";
}

class Layout {
 public:
  Layout(const Shape& shape, ElementText text, bool summary, std::string separator)
      : shape_(shape), text_(std::move(text)), summary_(summary), separator_(std::move(separator)) {
    stripped_ = separator_;
    while (!stripped_.empty() && stripped_.back() == ' ') stripped_.pop_back();
  }

  std::string block(std::size_t axis, std::int64_t offset, const std::string& indent, int width) const {
    std::string s = axis + 1 == shape_.size() ? row(axis, offset, indent, width) : rows(axis, offset, indent, width);
    return "[" + s.substr(indent.size()) + "]";
  }

 private:
  // Calls `item` with each index shown, and -1 for the gap.
  template <class F>
  void each(std::int64_t size, F&& item) const {
    bool gap = summary_ && size > 2 * kEdge;
    for (std::int64_t i = 0; i < size; ++i) {
      if (gap && i == kEdge) {
        item(std::int64_t{-1});
        i = size - kEdge;
      }
      item(i);
    }
  }

  std::string row(std::size_t axis, std::int64_t offset, const std::string& indent, int width) const {
    int most = width - std::max(static_cast<int>(stripped_.size()), 1);
    std::string s, line = indent;
    each(shape_[axis], [&](std::int64_t i) {
      std::string word = i < 0 ? "..." : text_(offset * shape_[axis] + i);
      if (static_cast<int>(line.size() + word.size()) > most && line.size() > indent.size()) {
        line.resize(line.find_last_not_of(' ') + 1);
        s += line + "\n";
        line = indent;
      }
      line += word;
      if (i != shape_[axis] - 1) line += separator_;
    });
    return s + line;
  }

  std::string rows(std::size_t axis, std::int64_t offset, const std::string& indent, int width) const {
    std::string s;
    each(shape_[axis], [&](std::int64_t i) {
      s += indent + (i < 0 ? "..." : block(axis + 1, offset * shape_[axis] + i, indent + " ", width - 1));
      if (i != shape_[axis] - 1) s += stripped_ + std::string(shape_.size() - axis - 1, '\n');
    });
    return s;
  }

  const Shape& shape_;
  ElementText text_;
  bool summary_;
  std::string separator_, stripped_;
};

// A key's two words, as an array of uint32.
std::string format_keys(const Shape& shape, const std::byte* data) {
  std::vector<std::uint32_t> words;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    std::uint64_t key = element(DType::uint64, data, i).as_uint();
    words.push_back(static_cast<std::uint32_t>(key >> 32));
    words.push_back(static_cast<std::uint32_t>(key));
  }
  return fmt::format(
      "Array({}, dtype=key<fry>) overlaying:\n{}", to_tuple_string(shape),
      format_array(DType::uint32, shape.with(shape.rank(), 2), reinterpret_cast<const std::byte*>(words.data())));
}

std::string type_text(const Array& a) {
  return fmt::format("dtype={}{}", name(a.dtype()), a.weak_type() ? ", weak_type=True" : "");
}

// The array that holds the values, or none where they can't be had; `text` says then what to print.
Array readable(const Array& x, std::string& text) {
  Array a = x;
  while (a.is_tracer()) {
    check_alive(a);
    auto* t = static_cast<const Tracer*>(a.value());
    a = t->underlying();
    if (!a.has_value()) {
      text = fmt::format("Traced({}{} in {})", name(t->aval()->dtype), to_string(t->aval()->shape), t->tag->what);
      return {};
    }
  }
  if (!a.has_value()) {
    text = "Array()";
  } else if (auto* c = runtime::as_concrete(a.value());
             c && !runtime::is_fully_addressable(*c) && !runtime::sharding_of(*c).is_fully_replicated()) {
    text = fmt::format("Array(shape={}, {})", to_tuple_string(a.shape()), type_text(a));
    return {};
  }
  return a;
}

template <class F>
std::string with_data(const Array& a, F&& format) {
  if (a.value()->kind() == Value::Kind::scalar) {
    std::byte bytes[16];
    static_cast<const ScalarValue*>(a.value())->scalar.write(bytes);
    return format(bytes);
  }
  runtime::HostView view = runtime::to_host(*runtime::as_concrete(a.value()), "print");
  return format(view.data());
}

}  // namespace

std::string format_array(DType dtype, const Shape& shape, const std::byte* data, const std::string& separator,
                         const std::string& prefix, const std::string& suffix) {
  if (dtype == DType::key) return format_keys(shape, data);
  if (shape.elements() == 0) return "[]";
  bool summary = shape.elements() > kThreshold;
  std::vector<std::int64_t> shown;
  collect(shape, summary, 0, 0, shown);
  ElementText text = element_text(dtype, data, shown, shape.empty());
  if (shape.empty()) return text(0);
  return Layout(shape, std::move(text), summary, separator)
      .block(0, 0, std::string(prefix.size() + 1, ' '), kLineWidth - static_cast<int>(suffix.size()));
}

std::string array_str(const Array& x) {
  std::string text;
  Array a = readable(x, text);
  if (!a.has_value()) return text;
  return with_data(a, [&](const std::byte* data) {
    if (a.ndim() == 0 && a.dtype() != DType::key) return scalar_str(a.dtype(), element(a.dtype(), data, 0));
    return format_array(a.dtype(), a.shape(), data);
  });
}

std::string array_repr(const Array& x) {
  std::string text;
  Array a = readable(x, text);
  if (!a.has_value()) return text;
  return with_data(a, [&](const std::byte* data) {
    if (a.dtype() == DType::key) return format_keys(a.shape(), data);
    const std::string prefix = "Array(";
    std::string type = type_text(a);
    std::string body = a.size() == 0 ? "[], shape=" + to_tuple_string(a.shape())
                                     : format_array(a.dtype(), a.shape(), data, ", ", prefix, ",");
    // As JAX counts: from the last line break, or two before the start.
    std::size_t newline = body.rfind('\n'), last = newline == body.npos ? body.size() + 2 : body.size() - newline + 1;
    bool fits = last + type.size() + 2 <= static_cast<std::size_t>(kLineWidth);
    return prefix + body + "," + (fits ? " " : std::string(prefix.size(), ' ')) + type + ")";
  });
}

}  // namespace lockstep::numpy

namespace lockstep {

std::string to_string(const Array& a) { return numpy::array_str(a); }
std::ostream& operator<<(std::ostream& out, const Array& a) { return out << numpy::array_str(a); }

}  // namespace lockstep
