// Reading launch files. Every key that is not known is refused with the nearest one that is.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/launch_file.h"

#include <algorithm>
#include <cstring>

#include "support/file.h"
#include "support/nearest.h"
#include "tools/diagnostics.h"

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

namespace tilec::tools {

namespace {

constexpr int64_t kMost = int64_t{1} << 32;  // elements of a buffer

class Reader {
 public:
  Reader(const std::string& path, DiagSink& diags) : diags_(diags) { out_.path = path; }

  Result<LaunchFile> Read(const toml::table& root) {
    TRY_VOID(Known(root, {"entry", "grid", "block", "cluster", "smem", "buffer", "map", "arg",
                          "expect", "reference"}));
    TRY(out_.entry, Text(root, "entry", ""));
    TRY_VOID(Extents(root, "grid", out_.config.grid));
    TRY_VOID(Extents(root, "block", out_.config.block));
    TRY_VOID(Extents(root, "cluster", out_.config.cluster));
    TRY(const int64_t smem, Integer(root, "smem", 0, 0, 1 << 20));
    out_.config.smem_bytes = static_cast<uint64_t>(smem);
    TRY_VOID(Each(root, "buffer", [&](const toml::table& t) { return Buffer(t); }));
    TRY_VOID(Each(root, "map", [&](const toml::table& t) { return Map(t); }));
    TRY_VOID(Each(root, "arg", [&](const toml::table& t) { return Argument(t); }));
    TRY_VOID(Each(root, "expect", [&](const toml::table& t) { return Expect(t); }));
    if (const toml::node* node = root.get("reference")) TRY_VOID(Reference(*node));
    return std::move(out_);
  }

  DiagBuilder At(const toml::node& node, const std::string& message) {
    return AtLine(node.source().begin.line, message);
  }
  DiagBuilder AtLine(uint32_t line, const std::string& message) {
    return diags_.Report(kLaunchFile, Span{}, message)
        .Place(fmt::format("{}:{}", out_.path, std::max(line, 1u)));
  }

 private:
  Result<> Known(const toml::table& table, const std::vector<std::string>& keys) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      const std::string near = NearestName(name, keys);
      DiagBuilder d = At(node, fmt::format("there is no key `{}` here", name));
      return near.empty() ? d.Help(fmt::format("use {}", fmt::join(keys, ", ")))
                          : d.Help(fmt::format("did you mean `{}`?", near));
    }
    return Done();
  }

  Result<std::string> Text(const toml::table& t, const char* key, const char* otherwise) {
    const toml::node* node = t.get(key);
    if (node == nullptr && otherwise != nullptr) return std::string(otherwise);
    if (node == nullptr) return At(t, fmt::format("`{}` is missing", key));
    if (node->is_string()) return *node->value<std::string>();
    return At(*node, fmt::format("`{}` is not a text", key));
  }

  Result<int64_t> Number(const toml::node& node, const char* key, int64_t low, int64_t high) {
    if (!node.is_integer()) return At(node, fmt::format("`{}` is not a whole number", key));
    const int64_t v = *node.value<int64_t>();
    if (v >= low && v <= high) return v;
    return At(node, fmt::format("`{}` is {}, the range is {} to {}", key, v, low, high));
  }
  Result<int64_t> Integer(const toml::table& t, const char* key, int64_t otherwise, int64_t low,
                          int64_t high) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return otherwise;
    return Number(*node, key, low, high);
  }

  // A number or a list of numbers.
  Result<std::vector<int64_t>> Numbers(const toml::table& t, const char* key, size_t most,
                                       int64_t high) {
    std::vector<int64_t> out;
    const toml::node* node = t.get(key);
    if (node == nullptr) return out;
    const toml::array* list = node->as_array();
    if (list == nullptr) {
      TRY(const int64_t v, Number(*node, key, 1, high));
      out.push_back(v);
      return out;
    }
    for (const toml::node& element : *list) {
      TRY(const int64_t v, Number(element, key, 1, high));
      out.push_back(v);
    }
    if (out.size() > most || out.empty())
      return At(*node,
                fmt::format("`{}` has {} extents, the range is 1 to {}", key, out.size(), most));
    return out;
  }
  Result<> Extents(const toml::table& t, const char* key, uint32_t (&to)[3]) {
    TRY(const std::vector<int64_t> v, Numbers(t, key, 3, INT32_MAX));
    for (size_t k = 0; k < v.size(); ++k) to[k] = static_cast<uint32_t>(v[k]);
    return Done();
  }

  template <typename F>
  Result<> Each(const toml::table& root, const char* key, F f) {
    const toml::node* node = root.get(key);
    if (node == nullptr) return Done();
    const toml::array* list = node->as_array();
    if (list == nullptr) return At(*node, fmt::format("write [[{}]]", key));
    for (const toml::node& element : *list) {
      if (!element.is_table()) return At(element, fmt::format("write [[{}]]", key));
      TRY_VOID(f(*element.as_table()));
    }
    return Done();
  }

  Result<size_t> BufferNamed(const toml::table& t, const std::string& name) {
    const int at = out_.FindBuffer(name);
    if (at >= 0) return static_cast<size_t>(at);
    std::vector<std::string> names;
    for (const LaunchBuffer& b : out_.buffers) names.push_back(b.name);
    DiagBuilder d = At(t, fmt::format("there is no buffer `{}`", name));
    const std::string near = NearestName(name, names);
    if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
    return d;
  }

  Result<> Buffer(const toml::table& t) {
    TRY_VOID(Known(t, {"name", "type", "dims", "fill", "file", "seed"}));
    LaunchBuffer b;
    TRY(b.name, Text(t, "name", nullptr));
    if (out_.FindBuffer(b.name) >= 0)
      return At(t, fmt::format("there are two buffers `{}`", b.name));
    TRY(const std::string type, Text(t, "type", nullptr));
    const auto dtype = ir::DTypeFromSpelling(type);
    if (!dtype) return At(*t.get("type"), fmt::format("there is no type `{}`", type));
    b.type = *dtype;
    TRY(b.dims, Numbers(t, "dims", 8, kMost));
    if (b.dims.empty()) return At(t, "`dims` is missing");
    int64_t n = 1;
    for (int64_t d : b.dims)
      if (__builtin_mul_overflow(n, d, &n) || n > kMost)
        return At(t, fmt::format("buffer `{}` has more than {} elements", b.name, kMost));
    TRY(b.fill, Text(t, "fill", "random"));
    if (b.fill != "random" && b.fill != "zero" && b.fill != "nan")
      return At(*t.get("fill"), fmt::format("`{}` is no fill", b.fill))
          .Help("use random, zero or nan");
    TRY(b.file, Text(t, "file", ""));
    TRY(const int64_t seed,
        Integer(t, "seed", static_cast<int64_t>(out_.buffers.size()) + 1, 0, INT64_MAX));
    b.seed = static_cast<uint64_t>(seed);
    out_.buffers.push_back(std::move(b));
    return Done();
  }

  Result<> Map(const toml::table& t) {
    TRY_VOID(Known(t, {"name", "buffer", "dims", "box", "swizzle", "fill_nan"}));
    LaunchMap m;
    TRY(m.name, Text(t, "name", nullptr));
    TRY(const std::string buffer, Text(t, "buffer", nullptr));
    TRY(m.buffer, BufferNamed(t, buffer));
    TRY(m.dims, Numbers(t, "dims", 5, kMost));
    if (m.dims.empty()) m.dims = out_.buffers[m.buffer].dims;
    TRY(m.box, Numbers(t, "box", 5, 256));
    if (m.box.size() != m.dims.size())
      return At(t, fmt::format("`box` has {} extents, the map {}", m.box.size(), m.dims.size()));
    TRY(const int64_t swizzle, Integer(t, "swizzle", 0, 0, 128));
    m.swizzle = static_cast<int>(swizzle);
    if (const toml::node* node = t.get("fill_nan")) {
      if (!node->is_boolean()) return At(*node, "`fill_nan` is true or false");
      m.fill_nan = *node->value<bool>();
    }
    out_.maps.push_back(std::move(m));
    return Done();
  }

  Result<> Argument(const toml::table& t) {
    TRY_VOID(Known(t, {"buffer", "map", "offset", "value", "type"}));
    LaunchArgument a;
    if ((t.get("buffer") != nullptr) + (t.get("map") != nullptr) + (t.get("value") != nullptr) != 1)
      return At(t, "an [[arg]] has one of `buffer`, `map` and `value`");
    if (t.get("buffer") != nullptr) {
      TRY(const std::string name, Text(t, "buffer", nullptr));
      a.kind = LaunchArgument::Kind::kBuffer;
      TRY(a.index, BufferNamed(t, name));
      TRY(a.offset, Integer(t, "offset", 0, 0, kMost));
    } else if (t.get("map") != nullptr) {
      TRY(const std::string name, Text(t, "map", nullptr));
      a.kind = LaunchArgument::Kind::kMap;
      while (a.index < out_.maps.size() && out_.maps[a.index].name != name) ++a.index;
      if (a.index == out_.maps.size()) return At(t, fmt::format("there is no map `{}`", name));
    } else {
      TRY(a.bytes, Value(t));
    }
    out_.arguments.push_back(std::move(a));
    return Done();
  }

  Result<std::vector<uint8_t>> Value(const toml::table& t) {
    const toml::node& node = *t.get("value");
    TRY(const std::string type, Text(t, "type", node.is_integer() ? "s32" : "f32"));
    static constexpr std::pair<const char*, int> kTypes[] = {
        {"s32", 4}, {"u32", 4}, {"b32", 4}, {"s64", 8}, {"u64", 8}, {"b64", 8}, {"s16", 2},
        {"u16", 2}, {"b16", 2}, {"u8", 1},  {"s8", 1},  {"b8", 1},  {"f32", 4}, {"f64", 8}};
    for (const auto& [name, size] : kTypes) {
      if (type != name) continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(size));
      if (type[0] == 'f') {
        const auto v = node.value<double>();
        if (!v) return At(node, "`value` is not a number");
        const auto f = static_cast<float>(*v);
        std::memcpy(bytes.data(), size == 4 ? static_cast<const void*>(&f) : &*v, bytes.size());
        return bytes;
      }
      TRY(const int64_t v,
          Number(node, "value", size == 8 ? INT64_MIN : -(int64_t{1} << (8 * size - 1)),
                 size == 8 ? INT64_MAX : (int64_t{1} << (8 * size)) - 1));
      std::memcpy(bytes.data(), &v, bytes.size());
      return bytes;
    }
    return At(node, fmt::format("there is no argument type `{}`", type))
        .Help("use s8 to s64, u8 to u64, b8 to b64, f32 or f64");
  }

  Result<> Expect(const toml::table& t) {
    TRY_VOID(Known(t, {"buffer", "file", "tolerance"}));
    LaunchExpect e;
    TRY(e.buffer, Text(t, "buffer", nullptr));
    TRY(const size_t at, BufferNamed(t, e.buffer));
    (void)at;
    TRY(e.file, Text(t, "file", nullptr));
    if (const toml::node* node = t.get("tolerance")) {
      const auto v = node->value<double>();
      if (!v || *v < 0) return At(*node, "`tolerance` is not a number from 0 on");
      e.tolerance = *v;
    }
    out_.expects.push_back(std::move(e));
    return Done();
  }

  Result<> Reference(const toml::node& node) {
    const toml::table* t = node.as_table();
    if (t == nullptr) return At(node, "write [reference]");
    TRY_VOID(Known(*t, {"kernel", "tensors", "values"}));
    TRY(out_.reference, Text(*t, "kernel", nullptr));
    if (const toml::node* list = t->get("tensors")) {
      if (!list->is_table()) return At(*list, "write tensors = {A = \"buffer\"}");
      for (const auto& [key, value] : *list->as_table()) {
        TRY(const std::string name,
            Text(*list->as_table(), std::string(key.str()).c_str(), nullptr));
        TRY(const size_t at, BufferNamed(*list->as_table(), name));
        (void)at;
        out_.tensors[std::string(key.str())] = name;
      }
    }
    if (const toml::node* list = t->get("values")) {
      if (!list->is_table()) return At(*list, "write values = {M = 512}");
      for (const auto& [key, value] : *list->as_table()) {
        const std::string name(key.str());
        if (value.is_boolean())
          out_.values[name] = *value.template value<bool>();
        else if (value.is_integer())
          out_.values[name] = *value.template value<int64_t>();
        else if (value.is_floating_point())
          out_.values[name] = *value.template value<double>();
        else
          return At(value, fmt::format("`{}` is no number", name));
      }
    }
    return Done();
  }

  DiagSink& diags_;
  LaunchFile out_;
};

}  // namespace

int LaunchFile::FindBuffer(std::string_view name) const {
  for (size_t k = 0; k < buffers.size(); ++k)
    if (buffers[k].name == name) return static_cast<int>(k);
  return -1;
}

Result<LaunchFile> ParseLaunchFile(const std::string& path, const std::string& text,
                                   DiagSink& diags) {
  Reader reader(path, diags);
  try {
    return reader.Read(toml::parse(text));
  } catch (const toml::parse_error& e) {
    return reader.AtLine(e.source().begin.line, std::string(e.description()));
  }
}

Result<LaunchFile> ReadLaunchFile(const std::string& path, DiagSink& diags) {
  std::string text, why;
  if (!ReadFile(path, &text, &why))
    return diags.Report(kFileUnreadable, Span{}, path, why).Place("command line");
  return ParseLaunchFile(path, text, diags);
}

}  // namespace tilec::tools
