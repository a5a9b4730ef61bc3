// SPDX-License-Identifier: Apache-2.0
#include "runtime/npy.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "runtime/diagnostics.h"
#include "runtime/launch.h"
#include "support/file.h"

namespace tilec::runtime {

namespace {

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;  // NumPy's own limit was 32

struct DescrRow {
  const char* descr;  // without the byte order
  const char* dtype;
};
constexpr DescrRow kDescrs[] = {
    {"b1", "bool"}, {"i1", "i8"},  {"i2", "i16"}, {"i4", "i32"}, {"i8", "i64"}, {"u1", "u8"},
    {"u2", "u16"},  {"u4", "u32"}, {"u8", "u64"}, {"f2", "f16"}, {"f4", "f32"}, {"f8", "f64"},
};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The header is a Python dict literal; this reads the subset NumPy writes, in any order of keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // "" or what is wrong.
  std::string Parse(Header* out) {
    bool descr = false, order = false, shape = false;
    if (!Eat('{')) return "it does not start with `{`";
    while (!Eat('}')) {
      std::string key;
      if (!String(&key)) return "a key is not a string";
      if (!Eat(':')) return fmt::format("`:` is missing after '{}'", key);
      if (key == "descr") {
        if (Peek() == '[') return "structured element types are not tensors";
        if (!String(&out->descr)) return "descr is not a string";
        descr = true;
      } else if (key == "fortran_order") {
        if (Word("True"))
          out->fortran = true;
        else if (Word("False"))
          out->fortran = false;
        else
          return "fortran_order is neither True nor False";
        order = true;
      } else if (key == "shape") {
        if (const std::string why = Tuple(&out->shape); !why.empty()) return why;
        shape = true;
      } else {
        return fmt::format("unknown key '{}'", key);
      }
      if (!Eat(',') && Peek() != '}') return "`,` or `}` is missing";
    }
    if (Peek() != '\0') return "text follows the dictionary";
    if (!descr) return "descr is missing";
    if (!order) return "fortran_order is missing";
    if (!shape) return "shape is missing";
    return "";
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Eat(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool Word(std::string_view word) {
    Peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool String(std::string* out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  std::string Tuple(std::vector<int64_t>* out) {
    if (!Eat('(')) return "shape is not a tuple";
    while (!Eat(')')) {
      if (Peek() == '-') return "an extent is negative";
      if (!std::isdigit(static_cast<unsigned char>(Peek()))) return "an extent is not a number";
      int64_t v = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
        if (__builtin_mul_overflow(v, int64_t{10}, &v) ||
            __builtin_add_overflow(v, int64_t{text_[at_] - '0'}, &v))
          return "an extent does not fit 63 bits";
      Word("L");  // written by NumPy under Python 2
      out->push_back(v);
      if (out->size() > kMaxRank) return fmt::format("more than {} dims", kMaxRank);
      if (!Eat(',') && Peek() != ')') return "`,` or `)` is missing in shape";
    }
    return "";
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Column-major bytes to row-major.
std::vector<uint8_t> Transposed(const uint8_t* from, const std::vector<int64_t>& dims,
                                size_t size) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  std::vector<uint8_t> out(static_cast<size_t>(count) * size);
  std::vector<int64_t> index(dims.size(), 0), stride(dims.size(), 1);
  for (size_t i = 1; i < dims.size(); ++i) stride[i] = stride[i - 1] * dims[i - 1];
  int64_t source = 0;
  for (int64_t n = 0; n < count; ++n) {
    std::memcpy(&out[static_cast<size_t>(n) * size], from + static_cast<size_t>(source) * size,
                size);
    for (size_t i = dims.size(); i-- > 0;) {
      source += stride[i];
      if (++index[i] < dims[i]) break;
      source -= stride[i] * dims[i];
      index[i] = 0;
    }
  }
  return out;
}

// Dtypes that numpy has not, and that are bytes there.
bool OfBytes(const std::string& dtype) {
  return dtype == "e4m3" || dtype == "e5m2" || dtype == "e2m1x2" || dtype == "ue8m0" ||
         dtype == "ue4m3";
}

// The dtype meant by a descr, or "" with the reason.
std::string DTypeOf(const std::string& descr, const std::string& wanted, std::string* why) {
  if (descr.size() < 3) return *why = "not an element type", "";
  const std::string base = descr.substr(1);
  const bool one_byte = base.size() == 2 && base[1] == '1';
  if (descr[0] == '>' && !one_byte) return *why = "big-endian words are not read", "";
  if (descr[0] != '<' && descr[0] != '|' && descr[0] != '>' && descr[0] != '=')
    return *why = "not a byte order", "";
  const bool words2 = base == "u2" || base == "V2", words1 = base == "u1" || base == "V1";
  if (words2 && (wanted == "bf16" || wanted == "f16")) return wanted;
  if (words1 && OfBytes(wanted)) return wanted;
  if (base == "f4" && wanted == "tf32") return wanted;
  for (const DescrRow& row : kDescrs)
    if (base == row.descr) return row.dtype;
  *why = base[0] == 'V' ? "raw words, and the kernel wants no type of that size that needs them"
                        : "no element type of a tensor";
  return "";
}

const char* DescrOf(const std::string& dtype) {
  if (dtype == "bf16") return "<u2";
  if (OfBytes(dtype)) return "|u1";
  if (dtype == "tf32") return "<f4";
  for (const DescrRow& row : kDescrs)
    if (dtype == row.dtype) return row.descr;
  return "V1";
}

}  // namespace

Result<NpyArray> ParseNpy(const std::string& path, const std::string& file,
                          const std::string& wanted, DiagSink& diags) {
  if (file.size() < 10)
    return diags.Report(kNpyMagic, Span{}, path,
                        fmt::format("it has {} bytes, the smallest has 10", file.size()));
  if (std::string_view(file).substr(0, kNumpyMagic.size()) != kNumpyMagic)
    return diags.Report(kNpyMagic, Span{}, path, "it does not start with \\x93NUMPY")
        .Help("write it with numpy.save(path, array)");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(file[i])); };
  const size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    return diags.Report(kNpyVersion, Span{}, path, major, minor);
  const size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) return diags.Report(kNpyHeader, Span{}, path, "it is cut off");
  size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > file.size() - prefix)
    return diags.Report(
        kNpyHeader, Span{}, path,
        fmt::format("{} bytes are announced, {} are there", length, file.size() - prefix));
  Header header;
  const std::string why =
      HeaderParser(std::string_view(file).substr(prefix, length)).Parse(&header);
  if (!why.empty()) return diags.Report(kNpyHeader, Span{}, path, why);

  NpyArray array;
  std::string dtype_why;
  array.dtype = DTypeOf(header.descr, wanted, &dtype_why);
  if (array.dtype.empty())
    return diags.Report(kNpyDtype, Span{}, path, header.descr, dtype_why)
        .Help("convert it: array.astype('<f4')");
  array.dims = header.shape;
  const size_t size = static_cast<size_t>(DTypeBytes(array.dtype));
  int64_t bytes = static_cast<int64_t>(size);
  const std::string shape = fmt::format("({})", fmt::join(array.dims, ", "));
  // An extent of 0 makes an empty array however large the others are.
  if (std::find(array.dims.begin(), array.dims.end(), 0) != array.dims.end()) bytes = 0;
  for (int64_t d : array.dims)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      return diags.Report(kNpyTooLarge, Span{}, path, shape + " " + array.dtype, "2^63 bytes");
  const size_t have = file.size() - prefix - length, need = static_cast<size_t>(bytes);
  if (have < need) return diags.Report(kNpyTruncated, Span{}, path, have, shape, need);
  if (have > need) return diags.Report(kNpyTrailing, Span{}, path, have - need);
  const auto* data = reinterpret_cast<const uint8_t*>(file.data()) + prefix + length;
  if (header.fortran && array.dims.size() > 1 && need > 0)
    array.bytes = Transposed(data, array.dims, size);
  else
    array.bytes.assign(data, data + need);
  return array;
}

Result<NpyArray> ReadNpy(const std::string& path, const std::string& wanted, DiagSink& diags) {
  std::string file, why;
  if (!ReadFile(path, &file, &why)) return diags.Report(kNpyOpen, Span{}, path, why);
  return ParseNpy(path, file, wanted, diags);
}

std::string NpyBytes(const NpyArray& array) {
  std::string descr = DescrOf(array.dtype);
  if (descr.size() == 2) descr = (descr[1] == '1' ? "|" : "<") + descr;
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  fmt::join(array.dims, ", "), array.dims.size() == 1 ? "," : "");
  constexpr size_t kPrefix = 10, kAlign = 64;
  header.append(kAlign - (kPrefix + header.size() + 1) % kAlign, ' ');
  header += '\n';
  std::string out(kNumpyMagic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return out;
}

Result<> WriteNpy(const std::string& path, const NpyArray& array, DiagSink& diags) {
  std::string why;
  if (!WriteFileAtomically(path, NpyBytes(array), &why))
    return diags.Report(kNpyWrite, Span{}, path, why);
  return Done();
}

}  // namespace tilec::runtime
