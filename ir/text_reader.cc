// SPDX-License-Identifier: Apache-2.0
#include "ir/text_reader.h"

#include <charconv>
#include <limits>
#include <optional>

namespace tilec::ir {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;
constexpr int64_t kMaxElements = int64_t{1} << 40;

}  // namespace

Span TextReader::At(size_t begin, size_t end) const {
  if (file < 0) return {};
  return {file, static_cast<uint32_t>(begin), static_cast<uint32_t>(std::max(end, begin + 1))};
}

DiagBuilder TextReader::Expected(std::string_view what) {
  Skip();
  if (pos >= text.size())
    return Syntax(fmt::format("expected {}, found the end of the text", what));
  size_t stop = pos + 1;
  if (IsWordOfText(text[pos]))
    while (stop < text.size() && IsWordOfText(text[stop]) && stop - pos < 40) ++stop;
  return Syntax(fmt::format("expected {}, found `{}`", what, text.substr(pos, stop - pos)));
}

void TextReader::Skip() {
  while (pos < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[pos]))) {
      ++pos;
    } else if (text.substr(pos, 2) == "//") {
      pos = std::min(text.find('\n', pos), text.size());
    } else {
      return;
    }
  }
}

bool TextReader::Eat(std::string_view token) {
  Skip();
  if (text.substr(pos, token.size()) != token) return false;
  if (IsWordOfText(token.back()) && pos + token.size() < text.size() &&
      IsWordOfText(text[pos + token.size()]))
    return false;
  pos += token.size();
  return true;
}

Result<> TextReader::Expect(std::string_view token) {
  if (Eat(token)) return Done();
  return Expected(fmt::format("`{}`", token));
}

Result<std::string> TextReader::Word(std::string_view what) {
  Skip();
  const size_t begin = pos;
  while (pos < text.size() && IsWordOfText(text[pos])) ++pos;
  if (pos == begin) return Expected(what);
  return std::string(text.substr(begin, pos - begin));
}

Result<int64_t> TextReader::Int(std::string_view what) {
  Skip();
  int64_t v = 0;
  auto [end, err] = std::from_chars(text.data() + pos, text.data() + text.size(), v);
  if (err == std::errc::result_out_of_range)
    return Syntax(fmt::format("{} does not fit 64 bits", what));
  if (err != std::errc()) return Expected(what);
  pos = static_cast<size_t>(end - text.data());
  return v;
}

Result<int64_t> TextReader::IntIn(std::string_view what, int64_t lo, int64_t hi) {
  Skip();
  const size_t begin = pos;
  TRY(const int64_t v, Int(what));
  if (v < lo || v > hi)
    return Error(kIrSyntax, begin, pos,
                 fmt::format("{} is {}; it must be {} … {}", what, v, lo, hi));
  return v;
}

Result<std::vector<int64_t>> TextReader::Ints(std::string_view what) {
  TRY_VOID(Expect("["));
  std::vector<int64_t> out;
  if (Eat("]")) return out;
  do {
    TRY(const int64_t v, Int(what));
    out.push_back(v);
  } while (Eat(","));
  TRY_VOID(Expect("]"));
  return out;
}

Result<std::string> TextReader::String() {
  TRY_VOID(Expect("\""));
  std::string out;
  for (; pos < text.size() && text[pos] != '"' && text[pos] != '\n'; ++pos) {
    if (text[pos] != '\\') {
      out += text[pos];
      continue;
    }
    if (++pos >= text.size()) break;
    if (text[pos] == 'n') {
      out += '\n';
    } else if (text[pos] == 'x') {
      unsigned code = 0;
      const char* from = text.data() + pos + 1;
      const char* stop = text.data() + std::min(text.size(), pos + 3);
      auto [end, err] = std::from_chars(from, stop, code, 16);
      if (err != std::errc() || end != from + 2) return Syntax("a \\x escape has two digits");
      out += static_cast<char>(code);
      pos += 2;
    } else {
      out += text[pos];
    }
  }
  if (pos >= text.size() || text[pos] != '"') return Syntax("the string is not closed");
  ++pos;
  return out;
}

Result<Expr> TextReader::ExprUntil(std::string_view stops) {
  Skip();
  const size_t begin = pos;
  int depth = 0;
  for (; pos < text.size() && text[pos] != '\n' && text.substr(pos, 2) != "//"; ++pos) {
    const char c = text[pos];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(') ++depth;
    if (c == ')') --depth;
  }
  if (pos - begin > kMaxExprText)
    return Error(kIrLimit, begin, pos, "length of an expression", pos - begin, kMaxExprText);
  std::optional<Expr> e = ParseExpr(text.substr(begin, pos - begin));
  if (!e) return Error(kIrSyntax, begin, pos, "expected an expression over dims");
  return std::move(*e);
}

Result<DType> TextReader::ParseDType() {
  Skip();
  const size_t begin = pos;
  TRY(const std::string word, Word("a type"));
  const std::optional<DType> d = DTypeFromSpelling(word);
  if (!d) return Error(kIrType, begin, pos, fmt::format("there is no element type `{}`", word));
  return *d;
}

Result<std::vector<int64_t>> TextReader::Shape() {
  const size_t begin = pos;
  TRY(std::vector<int64_t> shape, Ints("an extent"));
  if (static_cast<int64_t>(shape.size()) > kMaxRank)
    return Error(kIrLimit, begin, pos, "rank", shape.size(), kMaxRank);
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d < 1 || d > kMaxExtent)
      return Error(kIrType, begin, pos,
                   fmt::format("an extent is {}; it must be 1 … {}", d, kMaxExtent));
    elements *= d;
    if (elements > kMaxElements)
      return Error(kIrLimit, begin, pos, "elements of a tile", elements, kMaxElements);
  }
  return shape;
}

Result<Type> TextReader::ParseSmem() {
  TRY(const DType d, ParseDType());
  Skip();
  TRY(std::vector<int64_t> shape, Shape());
  Type t = Type::Smem(d, std::move(shape), {});
  struct Field {
    const char* name;
    int64_t lo, hi;
  };
  int64_t field[5] = {};
  constexpr Field kFields[] = {{"rows", 1, kMaxExtent},
                               {"cols", 1, kMaxExtent},
                               {"panel", 1, kMaxExtent},
                               {"swizzle", 0, 128},
                               {"depth", 1, 1 << 20}};
  for (int i = 0; i < 5; ++i) {
    TRY_VOID(Expect(","));
    TRY_VOID(Expect(kFields[i].name));
    TRY_VOID(Expect("="));
    TRY(field[i], IntIn(kFields[i].name, kFields[i].lo, kFields[i].hi));
  }
  TRY_VOID(Expect(">"));
  t.smem = {field[0], field[1], field[2], static_cast<int>(field[3])};
  t.depth = field[4];
  return t;
}

Result<Type> TextReader::ParseType() {
  if (Eat("counter")) return Type::Counter();
  if (Eat("mbar")) {
    TRY_VOID(Expect("<"));
    TRY(const int64_t depth, IntIn("depth", 1, 1 << 20));
    TRY_VOID(Expect(">"));
    return Type::Mbar(depth);
  }
  if (Eat("tensor")) {
    TRY_VOID(Expect("<"));
    TRY(const DType d, ParseDType());
    TRY_VOID(Expect(","));
    TRY(const int64_t rank, IntIn("rank", 0, kMaxRank));
    TRY_VOID(Expect(">"));
    return Type::Tensor(d, rank);
  }
  if (Eat("smem")) {
    TRY_VOID(Expect("<"));
    return ParseSmem();
  }
  TRY(const DType d, ParseDType());
  Type t = Type::Scalar(d);
  Skip();
  if (pos < text.size() && text[pos] == '[') {
    TRY(t.shape, Shape());
  }
  if (Eat("#")) {
    TRY(const int64_t id, IntIn("layout", 0, std::numeric_limits<int32_t>::max()));
    if (id >= layouts)
      return Error(kIrType, pos - 1, pos,
                   fmt::format("there is no layout #{} in the table at the top", id));
    t.layout = LayoutId(static_cast<int32_t>(id));
  }
  return t;
}

Result<AttrValue> TextReader::ParseAttr() {
  Skip();
  if (pos < text.size() && text[pos] == '"') {
    TRY(std::string s, String());
    return AttrValue(std::move(s));
  }
  if (pos < text.size() && text[pos] == '[') {
    TRY(std::vector<int64_t> v, Ints("an integer"));
    return AttrValue(std::move(v));
  }
  const size_t begin = pos;
  while (pos < text.size() && (IsWordOfText(text[pos]) || text[pos] == '-' || text[pos] == '+'))
    ++pos;
  const std::string_view token = text.substr(begin, pos - begin);
  const char* end = token.data() + token.size();
  if (token.find_first_of(".enEN") == std::string_view::npos) {
    int64_t v = 0;
    auto [stop, err] = std::from_chars(token.data(), end, v);
    if (err == std::errc() && stop == end) return AttrValue(v);
  } else {
    double v = 0;
    auto [stop, err] = std::from_chars(token.data(), end, v);
    if (err == std::errc() && stop == end) return AttrValue(v);
  }
  pos = begin;
  return Expected("an attribute's value");
}

}  // namespace tilec::ir
