// einsum: subscripts are parsed to lists of labels, repeated labels reduced to diagonals, labels that only one operand
// has summed away, and what is left contracted pair by pair with dot_general.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/linalg.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {
namespace {

using Labels = std::string;  // one character per dimension; those of "..." are upper control characters
constexpr char kEllipsis = '\x80';

struct Term {
  Array value;
  Labels labels;
};

[[noreturn]] void bad(std::string_view subscripts, const std::string& why) {
  throw_error(ErrorCode::invalid_argument, "einsum", "\"{}\": {}", subscripts, why);
}

Labels expand(std::string_view text, std::string_view subscripts, int rank) {
  Labels out;
  std::size_t dots = text.find("...");
  if (text.find('.') != dots || (dots != text.npos && text.find('.', dots + 3) != text.npos))
    bad(subscripts, "a dot is not part of an ellipsis");
  int named = 0;
  for (char c : text) named += std::isalpha(static_cast<unsigned char>(c)) != 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      int n = rank - named;
      if (n < 0)
        bad(subscripts, fmt::format("\"{}\" has more labels than the {} dimensions of its operand", text, rank));
      // Aligned at the last: the last dimension of every ellipsis is kEllipsis.
      for (int k = n; k-- > 0;) out.push_back(static_cast<char>(kEllipsis + k));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      out.push_back(text[i]);
    } else {
      bad(subscripts, fmt::format("'{}' is not a label", text[i]));
    }
  }
  if (static_cast<int>(out.size()) != rank)
    throw_error(ErrorCode::shape, "einsum", "\"{}\": \"{}\" has {} labels for an operand of {} dimensions", subscripts,
                text, out.size(), rank);
  return out;
}

// A label that occurs twice in one operand: its diagonal.
Term diagonals(Term t) {
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    std::size_t j = t.labels.find(t.labels[i], i + 1);
    if (j == t.labels.npos) continue;
    const Shape& s = t.value.shape();
    int di = static_cast<int>(i), dj = static_cast<int>(j);
    Array same = lax::eq(lax::broadcasted_iota(DType::int32, s, di), lax::broadcasted_iota(DType::int32, s, dj));
    Array zero = zeros(strong(t.value.aval()));
    t.value = lax::reduce_sum(lax::select(same, convert(t.value, t.value.dtype()), zero), {dj});
    t.labels.erase(j, 1);
    --i;
  }
  return t;
}
Term sum_out(Term t, const std::set<char>& keep) {
  Ints axes;
  Labels left;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    if (keep.count(t.labels[i]))
      left.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<std::int64_t>(i));
  }
  if (!axes.empty()) t = {lax::reduce_sum(t.value, axes), left};
  return t;
}
Array to_order(const Term& t, const Labels& want) {
  Ints perm;
  bool same = true;
  for (std::size_t i = 0; i < want.size(); ++i) {
    perm.push_back(static_cast<std::int64_t>(t.labels.find(want[i])));
    same = same && perm.back() == static_cast<std::int64_t>(i);
  }
  return same ? t.value : lax::transpose(t.value, perm);
}

Term contract(Term a, Term b, const std::set<char>& keep, const Labels* result, const ProductOptions& options) {
  std::set<char> in_a(a.labels.begin(), a.labels.end()), in_b(b.labels.begin(), b.labels.end());
  auto wanted = [&](const std::set<char>& other) {
    std::set<char> s = keep;
    s.insert(other.begin(), other.end());
    return s;
  };
  a = sum_out(std::move(a), wanted(in_b));
  b = sum_out(std::move(b), wanted(in_a));
  in_a = {a.labels.begin(), a.labels.end()}, in_b = {b.labels.begin(), b.labels.end()};
  auto multiply = [&](const Term& x, const Term& y) {
    Ints xb, yb, xc, yc;
    Labels batch, x_rest, y_rest;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      std::size_t j = y.labels.find(x.labels[i]);
      if (j == y.labels.npos) {
        x_rest.push_back(x.labels[i]);
      } else if (keep.count(x.labels[i])) {
        xb.push_back(static_cast<std::int64_t>(i)), yb.push_back(static_cast<std::int64_t>(j));
        batch.push_back(x.labels[i]);
      } else {
        xc.push_back(static_cast<std::int64_t>(i)), yc.push_back(static_cast<std::int64_t>(j));
      }
    }
    for (char l : y.labels)
      if (x.labels.find(l) == x.labels.npos) y_rest.push_back(l);
    return std::tuple{xb, yb, xc, yc, batch + x_rest + y_rest};
  };
  auto [xb, yb, xc, yc, labels] = multiply(a, b);
  if (result && labels != *result) {  // the other way round may save a transpose
    auto [sb, tb, sc, tc, swapped] = multiply(b, a);
    if (swapped == *result)
      return {
          lax::dot_general(b.value, a.value, {{sc, tc}, {sb, tb}},
                           {.precision = options.precision, .preferred_element_type = options.preferred_element_type}),
          swapped};
  }
  return {lax::dot_general(a.value, b.value, {{xc, yc}, {xb, yb}},
                           {.precision = options.precision, .preferred_element_type = options.preferred_element_type}),
          labels};
}

}  // namespace

Array einsum(std::string_view subscripts, std::span<const Array> operands, const ProductOptions& options,
             std::source_location where) {
  LocationScope scope(where);
  std::string text;
  for (char c : subscripts)
    if (c != ' ') text.push_back(c);
  std::size_t arrow = text.find("->");
  std::vector<std::string> inputs{""};
  for (char c : text.substr(0, arrow))
    if (c == ',')
      inputs.emplace_back();
    else
      inputs.back().push_back(c);
  if (inputs.size() != operands.size())
    bad(subscripts, fmt::format("{} terms for {} operands", inputs.size(), operands.size()));
  Arrays values = promote_dtypes("einsum", operands);
  std::vector<Term> terms;
  std::map<char, std::int64_t> sizes;
  std::map<char, int> counts;
  int ellipsis = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Term t{values[i], expand(inputs[i], subscripts, values[i].ndim())};
    for (std::size_t k = 0; k < t.labels.size(); ++k) {
      char l = t.labels[k];
      std::int64_t n = t.value.shape()[k];
      ++counts[l];
      bool dots = static_cast<unsigned char>(l) >= static_cast<unsigned char>(kEllipsis);
      if (dots)
        ellipsis = std::max(ellipsis, static_cast<unsigned char>(l) - static_cast<unsigned char>(kEllipsis) + 1);
      auto [it, fresh] = sizes.try_emplace(l, n);
      if (fresh || it->second == n) continue;
      if (it->second == 1)
        it->second = n;
      else if (n != 1)
        throw_error(ErrorCode::shape, "einsum", "\"{}\": label {} has sizes {} and {}", subscripts,
                    dots ? "..." : std::string(1, l), it->second, n);
    }
    terms.push_back(std::move(t));
  }
  Labels dots;
  for (int k = ellipsis; k-- > 0;) dots.push_back(static_cast<char>(kEllipsis + k));
  Labels result;
  if (arrow == std::string::npos) {
    result = dots;
    for (auto& [l, n] : counts)
      if (n == 1 && std::isalpha(static_cast<unsigned char>(l))) result.push_back(l);
  } else {
    std::string out = text.substr(arrow + 2);
    int rank = static_cast<int>(
        std::count_if(out.begin(), out.end(), [](char c) { return std::isalpha(static_cast<unsigned char>(c)); }));
    result = expand(out, subscripts, out.find("...") == std::string::npos ? rank : rank + ellipsis);
    for (char l : result) {
      if (!sizes.count(l)) bad(subscripts, fmt::format("the result's label '{}' is in no operand", l));
      if (std::count(result.begin(), result.end(), l) > 1)
        bad(subscripts, fmt::format("the result has label '{}' twice", l));
    }
  }
  // Dimensions of size 1 that broadcast carry no label of their own.
  for (Term& t : terms) {
    Ints ones;
    Labels left;
    for (std::size_t k = 0; k < t.labels.size(); ++k) {
      if (t.value.shape()[k] == 1 && sizes[t.labels[k]] != 1)
        ones.push_back(static_cast<std::int64_t>(k));
      else
        left.push_back(t.labels[k]);
    }
    if (!ones.empty()) t = {lax::squeeze(t.value, ones), left};
    t = diagonals(std::move(t));
  }
  std::set<char> out_labels(result.begin(), result.end());
  while (terms.size() > 1) {
    // The pair whose product is smallest; the first two if there are no more.
    std::size_t bi = 0, bj = 1;
    double best = -1;
    for (std::size_t i = 0; terms.size() > 2 && i < terms.size(); ++i)
      for (std::size_t j = i + 1; j < terms.size(); ++j) {
        std::set<char> all(terms[i].labels.begin(), terms[i].labels.end());
        all.insert(terms[j].labels.begin(), terms[j].labels.end());
        double cost = 1;
        for (char l : all) cost *= static_cast<double>(sizes[l]);
        if (best < 0 || cost < best) best = cost, bi = i, bj = j;
      }
    Term a = std::move(terms[bi]), b = std::move(terms[bj]);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(bj));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(bi));
    std::set<char> keep = out_labels;
    for (auto& t : terms) keep.insert(t.labels.begin(), t.labels.end());
    terms.push_back(contract(std::move(a), std::move(b), keep, terms.empty() ? &result : nullptr, options));
  }
  Term t = sum_out(std::move(terms[0]), out_labels);
  return to_order(t, result);
}

}  // namespace lockstep::numpy
