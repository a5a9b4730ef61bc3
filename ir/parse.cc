// Reads textual IR. The text may be damaged or hostile: depth, ranks and counts are bounded, every
// failure is one diagnostic at the byte where reading stopped. What is read is well formed as
// *text*; whether it is a sound function is the verifier's question.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "ir/diagnostics.h"
#include "ir/text.h"
#include "ir/text_reader.h"

namespace tilec::ir {
namespace {

constexpr int kMaxDepth = 100;  // nested regions
constexpr size_t kMaxText = size_t{1} << 28;

struct Parser : TextReader {
  Parser(std::string_view text, DiagSink& diags, int32_t file)
      : TextReader{.text = text, .diags = diags, .file = file} {}

  Function fn;
  std::map<std::string, ValueId, std::less<>> values;

  // ---- values
  Result<std::string> ValueName() {
    Skip();
    if (pos >= text.size() || text[pos] != '%') return Expected("a value such as `%x`");
    ++pos;
    return Word("a value's name");
  }
  Result<ValueId> Use() {
    Skip();
    const size_t begin = pos;
    TRY(const std::string name, ValueName());
    auto it = values.find(name);
    if (it == values.end()) return Error(kIrUnknownValue, begin, pos, name);
    return it->second;
  }
  static std::string Hint(const std::string& name) {
    return std::isdigit(static_cast<unsigned char>(name[0])) ? std::string() : name;
  }
  Result<> Define(const std::string& name, ValueId v, size_t begin) {
    if (!values.emplace(name, v).second)
      return Error(kIrRedefined, begin, begin + name.size() + 1, name);
    return Done();
  }

  // ---- ops
  Result<> ParseBlock(BlockId block, int depth) {
    if (depth > kMaxDepth)
      return Error(kIrLimit, pos, pos + 1, "depth of nested regions", depth, kMaxDepth);
    while (!Eat("}")) TRY_VOID(ParseOp(block, depth));
    return Done();
  }
  Result<> ParseRegion(OpId op, int depth) {
    const BlockId block = fn.AddBlock(op);
    fn.ops[op].regions.push_back(block);
    if (Eat("(")) {
      do {
        Skip();
        const size_t begin = pos;
        TRY(const std::string name, ValueName());
        TRY_VOID(Expect(":"));
        TRY(Type type, ParseType());
        TRY_VOID(Define(name, fn.AddArg(block, std::move(type), Hint(name)), begin));
      } while (Eat(","));
      TRY_VOID(Expect(")"));
    }
    TRY_VOID(Expect("{"));
    return ParseBlock(block, depth + 1);
  }
  Result<> ParseOp(BlockId block, int depth) {
    Skip();
    const size_t begin = pos;
    std::vector<std::pair<std::string, size_t>> results;
    if (pos < text.size() && text[pos] == '%') {
      do {
        Skip();
        const size_t at = pos;
        TRY(std::string name, ValueName());
        results.emplace_back(std::move(name), at);
      } while (Eat(","));
      TRY_VOID(Expect("="));
    }
    Skip();
    const size_t word_at = pos;
    TRY(const std::string word, Word("an op"));
    const std::optional<OpKind> kind = OpFromMnemonic(word);
    if (!kind) return Error(kIrUnknownOp, word_at, pos, word);
    Op op;
    op.kind = *kind;
    op.block = block;
    // Operands start on the op's line: a name on the next line is the next op's result.
    while (pos < text.size() && (text[pos] == ' ' || text[pos] == '\t')) ++pos;
    if (pos < text.size() && text[pos] == '%') {
      do {
        TRY(const ValueId v, Use());
        op.operands.push_back(v);
      } while (Eat(","));
    }
    if (Eat("{")) {
      do {
        TRY(std::string key, Word("an attribute's name"));
        TRY_VOID(Expect("="));
        TRY(AttrValue value, ParseAttr());
        if (op.attr(key)) return Syntax(fmt::format("attribute `{}` is given twice", key));
        op.attrs.emplace_back(std::move(key), std::move(value));
      } while (Eat(","));
      TRY_VOID(Expect("}"));
    }
    op.at = At(begin, pos);
    const OpId id = fn.ops.Add(std::move(op));
    fn.blocks[block].ops.push_back(id);
    if (!results.empty()) {
      TRY_VOID(Expect(":"));
      std::vector<Type> types;
      do {
        TRY(Type type, ParseType());
        types.push_back(std::move(type));
      } while (Eat(","));
      if (types.size() != results.size())
        return Error(kIrSyntax, begin, pos,
                     fmt::format("{} results have {} types", results.size(), types.size()));
      for (size_t i = 0; i < results.size(); ++i) {
        const ValueId v = fn.values.Add({std::move(types[i]), id, {}, Hint(results[i].first)});
        fn.ops[id].results.push_back(v);
        TRY_VOID(Define(results[i].first, v, results[i].second));
      }
    }
    while (Eat("do")) TRY_VOID(ParseRegion(id, depth));
    return Done();
  }

  // ---- header
  Result<> ParseLayoutLine() {
    TRY_VOID(Expect("#"));
    TRY(const int64_t id, Int("a layout's number"));
    if (id != fn.layouts.size())
      return Syntax(fmt::format("layouts are numbered in order; this is #{}", fn.layouts.size()));
    TRY_VOID(Expect("="));
    TRY_VOID(Expect("rank"));
    TRY(const int64_t rank, IntIn("rank", 0, kMaxRank));
    Skip();
    const size_t begin = pos;
    while (pos < text.size() && text[pos] != '\n' && text.substr(pos, 2) != "//") ++pos;
    std::string_view raw = text.substr(begin, pos - begin);
    while (!raw.empty() && std::isspace(static_cast<unsigned char>(raw.back())))
      raw.remove_suffix(1);
    std::optional<Layout> layout;
    if (raw.size() <= kMaxExprText) layout = ParseLayout(raw, static_cast<int>(rank));
    if (!layout)
      return Error(kIrSyntax, begin, pos, "expected a layout such as `t(32:1*1) r(2:0*1)`");
    fn.layouts.Add(std::move(*layout));
    layouts = static_cast<int64_t>(fn.layouts.size());
    return Done();
  }
  Result<> ParseParam() {
    Param p;
    if (Eat("tensor")) {
      p.kind = ParamKind::kTensor;
    } else if (Eat("dim")) {
      p.kind = ParamKind::kDim;
    } else {
      TRY_VOID(Expect("scalar"));
      p.kind = ParamKind::kScalar;
    }
    Skip();
    const size_t begin = pos;
    TRY(p.name, ValueName());
    p.at = At(begin, pos);
    TRY_VOID(Expect(":"));
    TRY(Type type, ParseType());
    if (p.kind == ParamKind::kTensor) {
      if (Eat("inout")) {
        p.direction = Direction::kInOut;
      } else if (Eat("out")) {
        p.direction = Direction::kOut;
      } else {
        TRY_VOID(Expect("in"));
      }
      TRY_VOID(Expect("["));
      if (!Eat("]")) {
        do {
          TRY(Expr e, ExprUntil(",]"));
          p.dims.push_back(std::move(e));
        } while (Eat(","));
        TRY_VOID(Expect("]"));
      }
      TRY_VOID(Expect("align"));
      TRY_VOID(Expect("="));
      TRY(p.facts.base_align_bytes, IntIn("align", 1, 1 << 30));
      TRY_VOID(Expect("stride_align"));
      TRY_VOID(Expect("="));
      TRY(p.facts.stride_align_bytes, IntIn("stride_align", 1, 1 << 30));
      TRY_VOID(Expect("contiguous"));
      TRY_VOID(Expect("="));
      TRY(const int64_t contiguous, IntIn("contiguous", 0, 1));
      p.facts.last_contiguous = contiguous != 0;
      if (Eat("last_align")) {
        TRY_VOID(Expect("="));
        TRY(p.facts.last_dim_align, IntIn("last_align", 1, 1 << 30));
      }
      p.strided_any = Eat("strided_any");
    }
    const std::string name = p.name;
    return Define(name, fn.AddParam(std::move(p), std::move(type)), begin);
  }
  Result<> ParseMap() {
    TensorMapInfo m;
    TRY(m.tensor, Use());
    TRY_VOID(Expect("dims"));
    TRY_VOID(Expect("="));
    TRY(const std::vector<int64_t> dims, Ints("a dim"));
    for (int64_t d : dims) {
      if (d < 0 || d >= kMaxRank) return Syntax(fmt::format("dim {} of a tensor map", d));
      m.dims.push_back(static_cast<int>(d));
    }
    TRY_VOID(Expect("box"));
    TRY_VOID(Expect("="));
    TRY(m.box, Ints("an extent"));
    TRY_VOID(Expect("swizzle"));
    TRY_VOID(Expect("="));
    TRY(const int64_t swizzle, IntIn("swizzle", 0, 128));
    m.swizzle_bytes = static_cast<int>(swizzle);
    if (Eat("panel")) {
      TRY_VOID(Expect("="));
      TRY(m.panel, IntIn("panel", 1, 256));
    }
    if (Eat("steps")) {
      TRY_VOID(Expect("="));
      TRY(m.steps, Ints("a step"));
    }
    fn.launch.maps.push_back(std::move(m));
    return Done();
  }
  Result<> ParseFact() {
    WhereFact f;
    Skip();
    const size_t begin = pos;
    TRY(f.text, String());
    TRY_VOID(Expect("="));
    TRY(f.condition, ExprUntil(""));
    f.at = At(begin, pos);
    fn.facts.push_back(std::move(f));
    return Done();
  }
  Result<> ParseLaunch() {
    TRY_VOID(Expect("warps"));
    TRY_VOID(Expect("="));
    TRY(const int64_t warps, IntIn("warps", 1, 64));
    fn.launch.warps = static_cast<int>(warps);
    TRY_VOID(Expect("smem"));
    TRY_VOID(Expect("="));
    TRY(fn.launch.smem_bytes, IntIn("smem", 0, 1 << 30));
    if (Eat("ctas")) {
      TRY_VOID(Expect("="));
      TRY(fn.launch.ctas_per_sm, IntIn("ctas", 0, 32));
    }
    if (Eat("cluster")) {
      TRY_VOID(Expect("="));
      TRY(fn.launch.cluster, IntIn("cluster", 1, 8));
    }
    TRY_VOID(Expect("grid"));
    TRY_VOID(Expect("="));
    TRY(fn.launch.grid, ExprUntil(""));
    return Done();
  }
  Result<Function> ParseOne() {
    fn = Function();
    layouts = 0;
    values.clear();
    TRY_VOID(Expect("func"));
    TRY_VOID(Expect("@"));
    TRY(fn.name, Word("the function's name"));
    if (Eat("warp")) {
      fn.level = Level::kWarp;
    } else {
      TRY_VOID(Expect("tile"));
    }
    TRY_VOID(Expect("{"));
    while (!Eat("body")) {
      if (Eat("layout")) {
        TRY_VOID(ParseLayoutLine());
      } else if (Eat("param")) {
        TRY_VOID(ParseParam());
      } else if (Eat("fact")) {
        TRY_VOID(ParseFact());
      } else if (Eat("static")) {
        TRY(const std::string name, Word("a name"));
        TRY_VOID(Expect("="));
        TRY(fn.statics[name], Int("a value"));
      } else if (Eat("launch")) {
        TRY_VOID(ParseLaunch());
      } else if (Eat("map")) {
        TRY_VOID(ParseMap());
      } else {
        return Expected("`body` or a line of the function's header");
      }
    }
    TRY_VOID(Expect("{"));
    TRY_VOID(ParseBlock(fn.body, 0));
    TRY_VOID(Expect("}"));
    return std::move(fn);
  }
};

}  // namespace

Result<Module> ParseModule(std::string_view text, DiagSink& diags, int32_t file) {
  Parser p(text, diags, file);
  if (text.size() > kMaxText)
    return diags.Report(kIrLimit, {}, "bytes of IR text", text.size(), kMaxText);
  Module module;
  for (p.Skip(); p.pos < text.size(); p.Skip()) {
    TRY(Function fn, p.ParseOne());
    module.functions.push_back(std::move(fn));
  }
  return module;
}

Result<Function> ParseFunction(std::string_view text, DiagSink& diags, int32_t file) {
  TRY(Module module, ParseModule(text, diags, file));
  if (module.functions.size() != 1)
    return diags.Report(kIrSyntax, {},
                        fmt::format("expected one function, found {}", module.functions.size()));
  return std::move(module.functions[0]);
}

}  // namespace tilec::ir
