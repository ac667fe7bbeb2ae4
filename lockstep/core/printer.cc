#include "lockstep/core/printer.h"

#include <algorithm>
#include <deque>
#include <span>

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

std::string Printer::fresh_name() {
  std::string name;
  do name = letters(next_++);
  while (std::any_of(shared_.begin(), shared_.end(), [&](auto& s) { return s.first == name; }));
  return name;
}

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
  share_names(j, e);
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

std::string Printer::name_param(const Eqn& e) {
  if (e.params == nullptr) return {};
  Printer p;
  p.only_names_ = true;
  if (e.primitive->print)
    e.primitive->print(p, e.params);
  else
    e.params->print(p);
  std::string all = '\x01' + p.text;
  auto begin = all.find("\x01name=");
  if (begin == std::string::npos) return {};
  begin += 6;
  std::string name = all.substr(begin, all.find('\x01', begin) - begin);
  std::erase_if(name, [](char c) { return c == '<' || c == '>'; });
  return name;
}

void Printer::find_shared(const Jaxpr& top) {
  struct Seen {
    const Jaxpr* jaxpr;
    int count;
    std::string name;
  };
  std::vector<Seen> seen;
  auto entry = [&](const Jaxpr* j) -> Seen& {
    for (auto& s : seen)
      if (s.jaxpr == j) return s;
    return seen.emplace_back(Seen{j, 0, {}});
  };
  std::deque<const Jaxpr*> queue{&top};
  while (!queue.empty()) {
    const Jaxpr* j = queue.front();
    queue.pop_front();
    entry(j).count += j != &top && j->eqns.size() > 10 ? 2 : 1;
    for (const Eqn& e : j->eqns) {
      if (e.params == nullptr) continue;
      std::vector<const ClosedJaxpr*> inner;
      e.params->jaxprs(inner);
      if (inner.empty()) continue;
      std::string name = name_param(e);
      for (auto* c : inner) {
        if (!*c) continue;
        queue.push_back(c->jaxpr.get());
        if (Seen& s = entry(c->jaxpr.get()); s.name.empty()) s.name = name;
      }
    }
  }
  std::unordered_map<std::string, int> counts;
  for (auto& s : seen) {
    if (s.count == 1) continue;
    std::string name = s.name.empty() ? "jaxpr" : s.name;
    if (int n = counts[name]++) name += std::to_string(n);
    shared_.emplace_back(name, s.jaxpr);
  }
}

void Printer::share_names(const Jaxpr& outer, const Eqn& e) {
  if (std::string_view(e.primitive->name) != "jit" || e.params == nullptr) return;
  std::vector<const ClosedJaxpr*> found;
  e.params->jaxprs(found);
  const Jaxpr& inner = **found[0];
  if (std::any_of(shared_.begin(), shared_.end(), [&](auto& s) { return s.second == &inner; })) return;
  auto& used = used_[&outer];
  auto share = [&](auto inner_vars, auto outer_vars) {
    std::vector<Atom> taken;
    for (std::size_t i = 0; i < inner_vars.size(); ++i) {
      Atom v = inner_vars[i], like = outer_vars[i];
      if (is_literal(v) || is_literal(like) || std::find(taken.begin(), taken.end(), like) != taken.end()) continue;
      auto& name = names_[&inner][v];
      if (!name.empty()) continue;
      taken.push_back(like);
      std::string outer_name = used.empty() || used[like] ? name_of(outer, like) : "_";
      names_[&inner][v] = outer_name;
    }
  };
  share(std::span<const VarId>(inner.invars), outer.in(e));
  share(std::span<const Atom>(inner.outvars), outer.out(e));
}

void Printer::print_program(const Jaxpr& j) {
  find_shared(j);
  auto& used = used_[&j];
  used.assign(j.num_vars(), false);
  for (const Eqn& e : j.eqns)
    for (Atom a : j.in(e))
      if (!is_literal(a)) used[a] = true;
  for (Atom a : j.outvars)
    if (!is_literal(a)) used[a] = true;
  for (auto& [name, shared] : shared_) {
    text += "let " + name + " = ";
    print_body(*shared, 0);
    text += " in\n";
  }
  print_body(j, 0);
}

void Printer::print(const Jaxpr& j, int indent) {
  if (only_names_) return;
  for (auto& [name, shared] : shared_)
    if (shared == &j) {
      text += name;
      return;
    }
  print_body(j, indent);
}

void Printer::print_body(const Jaxpr& j, int indent) {
  auto binders = [&](const std::vector<VarId>& vars) {
    std::string s;
    for (VarId v : vars) s += " " + name_of(j, v) + ":" + j.vars[v]->text;
    return s;
  };
  std::string head = "{ lambda" + (j.constvars.empty() ? " " : binders(j.constvars)) + ";" +
                     (j.invars.empty() ? " " : binders(j.invars)) + ".";
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
  one += " }";
  if (fits && column + one.size() <= kWidth) {
    text += one;
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
  p.print_program(j);
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
