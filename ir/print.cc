// Writes textual IR. Broken functions print too (with %? for what is missing): the printer is what
// people read when the verifier has complained.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <iterator>

#include "ir/text.h"

namespace tilec::ir {
namespace {

constexpr int kMaxPrintedDepth = 200;

std::string Sanitized(std::string_view hint) {
  std::string out;
  for (char c : hint.substr(0, 64))
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
  // A name of digits only would read as a number given to an unnamed value.
  if (!out.empty() && std::isdigit(static_cast<unsigned char>(out[0]))) out = "v" + out;
  return out;
}

std::string Quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string NumberText(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", v);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string AttrText(const AttrValue& value) {
  if (const int64_t* n = std::get_if<int64_t>(&value)) return std::to_string(*n);
  if (const double* d = std::get_if<double>(&value)) return NumberText(*d);
  if (const std::string* s = std::get_if<std::string>(&value)) return Quoted(*s);
  return fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(value), ", "));
}

template <typename T, typename F>
std::string Listed(const std::vector<T>& items, F&& text) {
  std::string out;
  for (const T& item : items) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

struct Printer {
  const Function& fn;
  const ValueNames& names;
  const PrintOptions& options;
  std::string out;

  std::string Name(ValueId v) const { return "%" + names[v]; }
  std::string TypeText(ValueId v) const {
    return static_cast<size_t>(v.index) < static_cast<size_t>(fn.values.size())
               ? ToText(fn.values[v].type)
               : "?";
  }

  std::string OpHead(const Op& op) const {
    std::string line;
    if (!op.results.empty()) line += Listed(op.results, [&](ValueId v) { return Name(v); }) + " = ";
    line += Info(op.kind).mnemonic;
    if (!op.operands.empty()) line += " " + Listed(op.operands, [&](ValueId v) { return Name(v); });
    if (!op.attrs.empty())
      line += " {" +
              Listed(op.attrs, [](const auto& a) { return a.first + " = " + AttrText(a.second); }) +
              "}";
    if (!op.results.empty())
      line += " : " + Listed(op.results, [&](ValueId v) { return TypeText(v); });
    return line;
  }

  void PrintBlockOps(BlockId block, int depth) {
    for (OpId id : fn.blocks[block].ops) PrintOne(id, depth);
  }

  void PrintOne(OpId id, int depth) {
    const std::string indent(static_cast<size_t>(2 * depth), ' ');
    const Op& op = fn.ops[id];
    out += indent + OpHead(op);
    std::string place;
    if (options.sources && op.at.known() && op.at.file < options.sources->size()) {
      const LineCol at = options.sources->Locate(op.at.file, op.at.begin);
      place = fmt::format("  // {}:{}:{}", options.sources->path(op.at.file), at.line, at.column);
    }
    bool first = true;
    for (BlockId region : op.regions) {
      out += " do ";
      if (!fn.blocks[region].args.empty())
        out += "(" +
               Listed(fn.blocks[region].args,
                      [&](ValueId v) { return Name(v) + ": " + TypeText(v); }) +
               ") ";
      out += "{";
      if (first) out += place;
      first = false;
      out += "\n";
      if (depth < kMaxPrintedDepth)
        PrintBlockOps(region, depth + 1);
      else
        out += indent + "  // nested too deeply to print\n";
      out += indent + "}";
    }
    if (op.regions.empty()) out += place;
    out += "\n";
  }

  void PrintParam(const Param& p) {
    const std::string head = Name(p.value) + ": " + TypeText(p.value);
    switch (p.kind) {
      case ParamKind::kDim: out += fmt::format("  param dim {}\n", head); return;
      case ParamKind::kScalar: out += fmt::format("  param scalar {}\n", head); return;
      case ParamKind::kTensor: break;
    }
    const char* direction = "in";
    switch (p.direction) {
      case Direction::kIn: break;
      case Direction::kOut: direction = "out"; break;
      case Direction::kInOut: direction = "inout"; break;
    }
    out += fmt::format("  param tensor {} {} [{}] align={} stride_align={} contiguous={}", head,
                       direction, Listed(p.dims, [](const Expr& e) { return ToText(e); }),
                       p.facts.base_align_bytes, p.facts.stride_align_bytes,
                       p.facts.last_contiguous ? 1 : 0);
    if (p.facts.last_dim_align != 1) out += fmt::format(" last_align={}", p.facts.last_dim_align);
    if (p.strided_any) out += " strided_any";
    out += "\n";
  }

  void PrintHeader() {
    for (int32_t i = 0; i < fn.layouts.size(); ++i)
      out += fmt::format("  layout #{} = rank {} {}\n", i, fn.layouts[LayoutId(i)].rank,
                         ToText(fn.layouts[LayoutId(i)]));
    for (const Param& p : fn.params) PrintParam(p);
    for (const WhereFact& f : fn.facts)
      out += fmt::format("  fact {} = {}\n", Quoted(f.text), ToText(f.condition));
    for (const auto& [name, value] : fn.statics)
      out += fmt::format("  static {} = {}\n", name, value);
    if (fn.level == Level::kWarp)
      out += fmt::format(
          "  launch warps={} smem={}{}{} grid={}\n", fn.launch.warps, fn.launch.smem_bytes,
          fn.launch.ctas_per_sm != 1 ? fmt::format(" ctas={}", fn.launch.ctas_per_sm) : "",
          fn.launch.cluster > 1 ? fmt::format(" cluster={}", fn.launch.cluster) : "",
          ToText(fn.launch.grid));
    for (const TensorMapInfo& m : fn.launch.maps)
      out += fmt::format(
          "  map {} dims=[{}] box=[{}] swizzle={}{}{}\n", Name(m.tensor), fmt::join(m.dims, ", "),
          fmt::join(m.box, ", "), m.swizzle_bytes,
          m.panel ? fmt::format(" panel={}", m.panel) : "",
          m.steps.empty() ? "" : fmt::format(" steps=[{}]", fmt::join(m.steps, ", ")));
  }

  void PrintFunction() {
    out += fmt::format("func @{} {} {{\n", fn.name.empty() ? "unnamed" : Sanitized(fn.name),
                       fn.level == Level::kTile ? "tile" : "warp");
    PrintHeader();
    out += "  body {\n";
    PrintBlockOps(fn.body, 2);
    out += "  }\n}\n";
  }
};

}  // namespace

ValueNames::ValueNames(const Function& fn) : names_(static_cast<size_t>(fn.values.size())) {
  for (const Param& p : fn.params) Assign(p.value, p.name);
  Visit(fn, fn.body, 0);
}

void ValueNames::Assign(ValueId v, const std::string& hint) {
  if (static_cast<size_t>(v.index) >= names_.size() || !names_[v.index].empty()) return;
  std::string name = Sanitized(hint);
  if (name.empty()) {
    names_[v.index] = std::to_string(next_number_++);
    return;
  }
  if (!taken_.insert(name).second) {
    int n = 1;
    while (!taken_.insert(fmt::format("{}.{}", name, n)).second) ++n;
    name = fmt::format("{}.{}", name, n);
  }
  names_[v.index] = std::move(name);
}

void ValueNames::Visit(const Function& fn, BlockId block, int depth) {
  if (depth > kMaxPrintedDepth ||
      static_cast<size_t>(block.index) >= static_cast<size_t>(fn.blocks.size()))
    return;
  for (ValueId v : fn.blocks[block].args)
    if (static_cast<size_t>(v.index) < names_.size()) Assign(v, fn.values[v].name);
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    for (ValueId v : op.results)
      if (static_cast<size_t>(v.index) < names_.size()) Assign(v, fn.values[v].name);
    for (BlockId region : op.regions) Visit(fn, region, depth + 1);
  }
}

std::string ValueNames::operator[](ValueId v) const {
  if (static_cast<size_t>(v.index) >= names_.size()) return "?";
  const std::string& name = names_[v.index];
  return name.empty() ? fmt::format("?{}", v.index) : name;
}

std::string Print(const Function& fn, const PrintOptions& options) {
  const ValueNames names(fn);
  Printer p{fn, names, options, {}};
  p.PrintFunction();
  return std::move(p.out);
}

std::string Print(const Module& module, const PrintOptions& options) {
  std::string out;
  for (const Function& fn : module.functions) {
    if (!out.empty()) out += "\n";
    out += Print(fn, options);
  }
  return out;
}

std::string PrintOp(const Function& fn, OpId op) {
  const ValueNames names(fn);
  const PrintOptions options;
  return Printer{fn, names, options, {}}.OpHead(fn.ops[op]);
}

}  // namespace tilec::ir
