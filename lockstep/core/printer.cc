#include "lockstep/core/printer.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr std::size_t kWidth = 80;

std::string letters(int n) {  // a ... z, ba, bb ...
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('a' + n % 26));
    n /= 26;
  } while (n > 0);
  return text;
}
std::string spaces(int n) { return std::string(static_cast<std::size_t>(n), ' '); }
bool has_line_break(const std::string& s) { return s.find('\n') != std::string::npos; }

}  // namespace

void print_text(Printer& p, std::string_view text) { p.text += text; }
void print_param(Printer& p, bool v) { p.text += v ? "True" : "False"; }
void print_param(Printer& p, std::int64_t v) { p.text += std::to_string(v); }
void print_param(Printer& p, double v) { p.text += to_string(Scalar(v, DType::float64)); }
void print_param(Printer& p, std::string_view v) { p.text += v; }
void print_param(Printer& p, DType v) { p.text += name(v); }
void print_param(Printer& p, None) { p.text += "None"; }
void print_param(Printer& p, const Scalar& v) { p.text += to_string(v); }
void print_param(Printer& p, const Shape& v) { p.text += to_tuple_string(v); }
void print_param(Printer& p, const ClosedJaxpr& v) { p.print(v, p.indent()); }

void internal::sort_and_print(Printer& p, std::vector<std::pair<std::string_view, std::function<void()>>> fields) {
  std::sort(fields.begin(), fields.end(), [](auto& a, auto& b) { return a.first < b.first; });
  bool first = true;
  for (auto& [name, value] : fields) {
    if (!first) p.text += '\x01';  // a break, resolved by print_eqn
    first = false;
    p.text += name;
    p.text += '=';
    value();
  }
}

std::string Printer::fresh_name() { return letters(next_++); }

std::string Printer::name_of(const Jaxpr& j, Atom a) {
  if (is_literal(a)) {
    auto& l = j.literals[~a];
    return to_string(l.value) + ":" + l.aval->text;
  }
  auto& name = names_[&j][a];
  if (name.empty()) name = fresh_name();
  return name;
}

void Printer::print_eqn(const Jaxpr& j, const Eqn& e, int indent) {
  std::string left;
  auto& used = used_[&j];
  for (VarId v : j.out(e)) {
    left += left.empty() ? "" : " ";
    left += (used.empty() || used[v] ? name_of(j, v) : std::string("_")) + ":" + j.vars[v]->text;
  }
  std::string saved = std::move(text);
  int saved_indent = indent_, saved_column = param_column_;
  text.clear();
  indent_ = indent + 2;
  param_column_ = base_ + indent_;
  if (e.primitive->print)
    e.primitive->print(*this, e.params);
  else if (e.params)
    e.params->print(*this);
  std::string params = std::move(text);
  text = std::move(saved);
  indent_ = saved_indent;
  param_column_ = saved_column;

  std::string operands;
  for (Atom a : j.in(e)) operands += " " + name_of(j, a);
  if (operands.empty()) operands = " ";
  std::string head = spaces(indent) + left + (left.empty() ? "" : " = ") + e.primitive->name;
  if (params.empty()) {
    text += head + operands;
    return;
  }
  std::string flat = params;
  std::replace(flat.begin(), flat.end(), '\x01', ' ');
  if (!has_line_break(flat) && static_cast<std::size_t>(base_) + head.size() + flat.size() + 2 <= kWidth) {
    text += head + "[" + flat + "]" + operands;
    return;
  }
  text += head + "[\n" + spaces(indent + 2);
  for (char c : params)
    if (c == '\x01')
      text += "\n" + spaces(indent + 2);
    else
      text += c;
  text += "\n" + spaces(indent) + "]" + operands;
}

void Printer::print(const Jaxpr& j, int indent) {
  auto& used = used_[&j];
  if (used.empty()) {
    used.assign(j.num_vars(), false);
    for (const Eqn& e : j.eqns)
      for (Atom a : j.in(e))
        if (!is_literal(a)) used[a] = true;
    for (Atom a : j.outvars)
      if (!is_literal(a)) used[a] = true;
  }
  auto binders = [&](const std::vector<VarId>& vars) {
    std::string s;
    for (VarId v : vars) s += " " + name_of(j, v) + ":" + j.vars[v]->text;
    return s;
  };
  std::string head = "{ lambda" + (j.constvars.empty() ? " " : binders(j.constvars)) + ";" + binders(j.invars) + ".";
  std::size_t line_start = text.find_last_of("\n\x01") + 1;
  std::size_t column = static_cast<std::size_t>(param_column_) + text.size() - line_start;
  std::vector<std::string> lines;
  base_ += indent + 4;
  for (const Eqn& e : j.eqns) {
    std::string saved = std::move(text);
    text.clear();
    print_eqn(j, e, 0);
    lines.push_back(std::move(text));
    text = std::move(saved);
  }
  base_ -= indent + 4;
  std::string outs = "(";
  for (std::size_t i = 0; i < j.outvars.size(); ++i) outs += (i ? ", " : "") + name_of(j, j.outvars[i]);
  outs += j.outvars.size() == 1 ? ",)" : ")";

  std::string one = head + " let";
  bool fits = true;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    one += (i ? "; " : " ") + lines[i];
    fits = fits && !has_line_break(lines[i]);
  }
  one += (lines.empty() ? "  in " : " in ") + outs;
  if (fits && column + one.size() <= kWidth) {
    text += one + " }";
    return;
  }
  text += head + " let\n";
  for (auto& line : lines) {
    text += spaces(indent + 4);
    for (char c : line) {
      text += c;
      if (c == '\n') text += spaces(indent + 4);
    }
    text += "\n";
  }
  text += spaces(indent + 2) + "in " + outs + " }";
}
void Printer::print(const ClosedJaxpr& j, int indent) { print(*j, indent); }

std::string to_string(const ClosedJaxpr& j) { return to_string(*j); }
std::string to_string(const Jaxpr& j) {
  Printer p;
  p.print(j, 0);
  return std::move(p.text);
}
std::string to_string(const Jaxpr& j, const Eqn& e) {
  Printer p;
  p.print_eqn(j, e, 0);
  std::string types;
  for (Atom a : j.in(e)) types += (types.empty() ? "" : ", ") + j.aval(a)->text;
  return p.text + "    # " + types;
}

}  // namespace lockstep
