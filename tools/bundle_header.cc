// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle_header.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "ir/type.h"

namespace tilec::tools {

namespace {

// Names that a parameter cannot have in the functions below: words of C, and their own variables.
constexpr std::string_view kTaken[] = {
    "args",     "auto",     "bool",     "break",    "bundle",  "case",     "char",    "const",
    "continue", "default",  "device",   "dims",     "do",      "double",   "else",    "enum",
    "extern",   "false",    "float",    "for",      "goto",    "if",       "inline",  "int",
    "int64_t",  "long",     "register", "restrict", "return",  "short",    "signed",  "sizeof",
    "static",   "status",   "stream",   "struct",   "switch",  "true",     "typedef", "uint64_t",
    "union",    "unsigned", "void",     "volatile", "while",   "and",      "class",   "delete",
    "new",      "not",      "operator", "or",       "private", "template", "this",    "xor",
};

std::string Safe(const std::string& name) {
  return std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken) ? name + "_"
                                                                                   : name;
}

// An extent as an expression of C. Extents are not negative, so `/` rounds as `/` of C does.
std::string ToC(const Expr& e, const Bindings& fixed) {
  const auto infix = [&](const char* op) {
    return "(" + ToC(e.args[0], fixed) + " " + op + " " + ToC(e.args[1], fixed) + ")";
  };
  const auto choose = [&](const char* op) {
    const std::string a = ToC(e.args[0], fixed), b = ToC(e.args[1], fixed);
    return "(" + a + " " + op + " " + b + " ? " + a + " : " + b + ")";
  };
  switch (e.op) {
    case Expr::Op::kConst: return std::to_string(e.value);
    case Expr::Op::kName: {
      const auto at = fixed.find(e.name);
      return at == fixed.end() ? Safe(e.name) : std::to_string(at->second);
    }
    case Expr::Op::kAdd: return infix("+");
    case Expr::Op::kSub: return infix("-");
    case Expr::Op::kMul: return infix("*");
    case Expr::Op::kDiv: return infix("/");
    case Expr::Op::kMod: return infix("%");
    case Expr::Op::kMin: return choose("<");
    case Expr::Op::kMax: return choose(">");
    case Expr::Op::kCeilDiv: {
      const std::string b = ToC(e.args[1], fixed);
      return "((" + ToC(e.args[0], fixed) + " + " + b + " - 1) / " + b + ")";
    }
    case Expr::Op::kEq: return infix("==");
    case Expr::Op::kNe: return infix("!=");
    case Expr::Op::kLt: return infix("<");
    case Expr::Op::kLe: return infix("<=");
    case Expr::Op::kGt: return infix(">");
    case Expr::Op::kGe: return infix(">=");
    case Expr::Op::kAnd: return infix("&&");
    case Expr::Op::kOr: return infix("||");
    case Expr::Op::kNot: return "!" + ToC(e.args[0], fixed);
  }
  return "0";
}

// What is compiled into every build of the kernel, with one value.
Bindings FixedIn(const runtime::Bundle& bundle, const std::string& kernel) {
  Bindings out;
  bool first = true;
  for (const runtime::Build& build : bundle.builds) {
    if (build.image.name != kernel) continue;
    if (std::exchange(first, false)) {
      out = build.image.statics;
      continue;
    }
    for (auto it = out.begin(); it != out.end();) {
      const auto at = build.image.statics.find(it->first);
      it = at == build.image.statics.end() || at->second != it->second ? out.erase(it) : ++it;
    }
  }
  return out;
}

struct Writer {
  const frontend::Signature& kernel;
  Bindings fixed;
  std::vector<std::string> parameters, statements;

  void Scalar(const frontend::ParamInfo& p) {
    if (fixed.count(p.name)) return;
    // A constant of floating point is compiled in with the one value it was built with.
    if (p.role == frontend::ParamRole::kConst && ir::IsFloat(p.dtype)) return;
    const bool flag = p.dtype == ir::DType::kBool, real = ir::IsFloat(p.dtype);
    parameters.push_back(std::string(flag ? "int " : real ? "double " : "int64_t ") + Safe(p.name));
    statements.push_back(fmt::format("tilec_args_{}(args, \"{}\", {});",
                                     flag   ? "bool"
                                     : real ? "float"
                                            : "int",
                                     p.name, Safe(p.name)));
  }

  void Tensor(const frontend::ParamInfo& p) {
    parameters.push_back("uint64_t " + Safe(p.name));
    std::string dtype = ir::Spelling(p.dtype);
    for (char& c : dtype) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (p.dims.empty()) {
      statements.push_back(fmt::format("tilec_args_tensor(args, \"{}\", TILEC_{}, {}, 0, 0, 0);",
                                       p.name, dtype, Safe(p.name)));
      return;
    }
    std::string dims;
    for (const Expr& e : p.dims) dims += (dims.empty() ? "" : ", ") + ToC(e, fixed);
    statements.push_back(
        fmt::format("{{\n    const int64_t dims[] = {{{}}};\n"
                    "    tilec_args_tensor(args, \"{}\", TILEC_{}, {}, {}, dims, 0);\n  }}",
                    dims, p.name, dtype, Safe(p.name), p.dims.size()));
  }

  std::string Comment() const {
    std::string words;
    for (const frontend::ParamInfo& p : kernel.params) {
      const char* const directions[] = {"", "out ", "inout "};
      std::string dims;
      for (const Expr& e : p.dims) dims += (dims.empty() ? "" : ", ") + ToText(e);
      const bool tensor = p.role == frontend::ParamRole::kTensor;
      words += fmt::format("{}{}: {}{}{}", words.empty() ? "" : ", ", p.name,
                           tensor ? directions[static_cast<int>(p.direction)] : "",
                           ir::Spelling(p.dtype), tensor ? "[" + dims + "]" : "");
    }
    std::string out = fmt::format("/* {}({})", kernel.kernel, words);
    std::string values;
    for (const auto& [name, value] : fixed)
      if (!kernel.tune(name))
        values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, value);
    return out + (values.empty() ? "" : "\n * built for " + values) + " */\n";
  }

  std::string Function() {
    for (const frontend::DimInfo& d : kernel.dims)
      if (!fixed.count(d.name)) parameters.push_back("int64_t " + Safe(d.name));
    for (const frontend::ParamInfo& p : kernel.params)
      if (p.role == frontend::ParamRole::kTensor)
        Tensor(p);
      else
        Scalar(p);
    const std::string name = IdentifierOf(kernel.kernel);
    return Comment() +
           fmt::format(
               "static inline tilec_status* {}_launch(\n    tilec_bundle* bundle, tilec_device* "
               "device, int32_t stream{}{}) {{\n"
               "  tilec_args* args = tilec_args_create();\n  tilec_status* status;\n  {}\n"
               "  status = tilec_bundle_launch(bundle, \"{}\", device, args, stream);\n"
               "  tilec_args_free(args);\n  return status;\n}}\n",
               name, parameters.empty() ? "" : ",\n    ", fmt::join(parameters, ", "),
               fmt::join(statements, "\n  "), kernel.kernel);
  }
};

}  // namespace

std::string IdentifierOf(const std::string& name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "_" + out : out;
}

std::string BundleHeader(const std::string& name, bool embedded,
                         const std::vector<frontend::Signature>& kernels,
                         const runtime::Bundle& bundle) {
  std::string out = fmt::format(
      "/* Written by `tilec bundle`; changes are lost.\n *\n"
      " * Tensors are addresses of the device, dense and row-major. A call gives NULL, or a "
      "status\n"
      " * that says what is wrong and is to be freed with tilec_status_free.\n */\n"
      "#pragma once\n\n#include <tilec/tilec_c.h>\n\n#ifdef __cplusplus\nextern \"C\" "
      "{{\n#endif\n");
  if (embedded)
    out += fmt::format(
        "\n/* The bundle that is linked into this program; free it with tilec_bundle_free. */\n"
        "tilec_status* {}_open(tilec_bundle** bundle);\n",
        IdentifierOf(name));
  for (const frontend::Signature& kernel : kernels)
    out += "\n" + Writer{kernel, FixedIn(bundle, kernel.kernel), {}, {}}.Function();
  return out + "\n#ifdef __cplusplus\n}\n#endif\n";
}

std::string EmbeddedSource(const std::string& name, const std::string& path) {
  std::string quoted;
  for (const char c : path)
    quoted += c == '\\' || c == '"' ? std::string("\\\\\\") + c : std::string(1, c);
  const std::string id = IdentifierOf(name);
  return fmt::format(
      "/* Written by `tilec bundle`; changes are lost. For GCC and Clang on ELF systems. */\n"
      "#include <tilec/tilec_c.h>\n\n"
      "__asm__(\n"
      "    \".pushsection .rodata.tilec, \\\"a\\\"\\n\"\n"
      "    \".balign 16\\n\"\n"
      "    \".hidden {0}_bytes\\n.global {0}_bytes\\n{0}_bytes:\\n\"\n"
      "    \".incbin \\\"{1}\\\"\\n\"\n"
      "    \".hidden {0}_end\\n.global {0}_end\\n{0}_end:\\n\"\n"
      "    \".byte 0\\n.popsection\\n\");\n\n"
      "extern const char {0}_bytes[], {0}_end[];\n"
      "tilec_status* {0}_open(tilec_bundle** bundle);\n"
      "tilec_status* {0}_open(tilec_bundle** bundle) {{\n"
      "  return tilec_bundle_open_static({0}_bytes, (size_t)({0}_end - {0}_bytes), \"{0}\", "
      "bundle);\n"
      "}}\n",
      id, quoted);
}

}  // namespace tilec::tools
