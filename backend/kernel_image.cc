// KernelImage as JSON: what the cache on disk and `tilec build` store. Reading trusts nothing: a
// damaged text gives false and a reason that names the field.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/kernel_image.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace tilec::backend {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 3;

const char* Spelling(Direction d) {
  switch (d) {
    case Direction::kIn: return "in";
    case Direction::kOut: return "out";
    case Direction::kInOut: return "inout";
  }
  return "in";
}
const char* Spelling(EntryParam::Kind k) {
  switch (k) {
    case EntryParam::Kind::kTensorPointer: return "pointer";
    case EntryParam::Kind::kTensorMap: return "map";
    case EntryParam::Kind::kInt: return "int";
    case EntryParam::Kind::kScalar: return "scalar";
  }
  return "int";
}

Json Texts(const std::vector<Expr>& list) {
  Json out = Json::array();
  for (const Expr& e : list) out.push_back(ToText(e));
  return out;
}

// Fields of one object. The first failure sticks in *why; later reads do nothing.
class Reader {
 public:
  Reader(const Json& object, std::string path, std::string* why)
      : object_(object), path_(std::move(path)), why_(why) {
    if (!object_.is_object()) Fail("", "is not an object");
  }
  bool ok() const { return why_->empty(); }

  void Read(const char* key, std::string* out) {
    if (const Json* j = Find(key)) {
      if (j->is_string())
        *out = j->get<std::string>();
      else
        Fail(key, "is not a string");
    }
  }
  void Read(const char* key, bool* out) {
    if (const Json* j = Find(key)) {
      if (j->is_boolean())
        *out = j->get<bool>();
      else
        Fail(key, "is not a boolean");
    }
  }
  void Read(const char* key, int64_t* out) {
    if (const Json* j = Find(key)) Integer(*j, key, out);
  }
  void Read(const char* key, int* out) {
    int64_t wide = 0;
    if (const Json* j = Find(key)) {
      if (!Integer(*j, key, &wide)) return;
      if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
        Fail(key, "is out of range");
      else
        *out = static_cast<int>(wide);
    }
  }
  void Read(const char* key, Expr* out) {
    std::string text;
    Read(key, &text);
    if (ok()) Parse(text, key, out);
  }
  void Read(const char* key, std::vector<Expr>* out) {
    Each(key, [&](const Json& j, const std::string& name) {
      Expr e;
      if (!j.is_string())
        Fail(name, "is not a string");
      else if (Parse(j.get<std::string>(), name, &e))
        out->push_back(std::move(e));
    });
  }
  void Read(const char* key, std::vector<std::string>* out) {
    Each(key, [&](const Json& j, const std::string& name) {
      if (j.is_string())
        out->push_back(j.get<std::string>());
      else
        Fail(name, "is not a string");
    });
  }
  void Read(const char* key, std::vector<int64_t>* out) {
    Each(key, [&](const Json& j, const std::string& name) {
      int64_t v = 0;
      if (Integer(j, name, &v)) out->push_back(v);
    });
  }
  template <typename F>
  void Objects(const char* key, F f) {
    Each(key, [&](const Json& j, const std::string& name) {
      Reader r(j, Path(name), why_);
      if (ok()) f(r);
    });
  }
  template <typename F>
  void Members(const char* key, F f) {
    const Json* j = Find(key);
    if (!j) return;
    if (!j->is_object()) return Fail(key, "is not an object");
    for (auto it = j->begin(); it != j->end() && ok(); ++it) {
      int64_t v = 0;
      if (Integer(it.value(), it.key(), &v)) f(it.key(), v);
    }
  }
  void Fail(const std::string& key, const std::string& what) {
    if (ok()) *why_ = (key.empty() ? path_ : Path(key)) + " " + what;
  }

 private:
  std::string Path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  const Json* Find(const char* key) {
    if (!ok()) return nullptr;
    auto it = object_.find(key);
    if (it == object_.end()) {
      Fail(key, "is missing");
      return nullptr;
    }
    return &*it;
  }
  bool Integer(const Json& j, const std::string& key, int64_t* out) {
    if (!j.is_number_integer() ||
        (j.is_number_unsigned() && j.get<uint64_t>() > uint64_t{1} << 62)) {
      Fail(key, "is not an integer");
      return false;
    }
    *out = j.get<int64_t>();
    return true;
  }
  bool Parse(const std::string& text, const std::string& key, Expr* out) {
    std::optional<Expr> e = ParseExpr(text);
    if (!e) {
      Fail(key, "is not an expression");
      return false;
    }
    *out = std::move(*e);
    return true;
  }
  template <typename F>
  void Each(const char* key, F f) {
    const Json* j = Find(key);
    if (!j) return;
    if (!j->is_array()) return Fail(key, "is not a list");
    size_t i = 0;
    for (const Json& item : *j) {
      if (!ok()) return;
      f(item, std::string(key) + "[" + std::to_string(i++) + "]");
    }
  }

  const Json& object_;
  std::string path_;
  std::string* why_;
};

// A launch looks tensors and scalars up by name: every name that an image mentions must be one of
// its signature's. Says what leads nowhere; "" if nothing does.
std::string Dangling(const KernelImage& image) {
  std::set<std::string> tensors, scalars;
  for (const auto* all : {&image.tensors, &image.work})
    for (const TensorArg& t : *all)
      if (!tensors.insert(t.name).second) return "tensor `" + t.name + "` is there twice";
  for (const ScalarArg& s : image.scalars)
    if (!scalars.insert(s.name).second || tensors.count(s.name))
      return "scalar `" + s.name + "` is there twice";
  for (const TensorMapRecipe& m : image.tensor_maps) {
    if (!tensors.count(m.tensor))
      return "a tensor map is of `" + m.tensor + "`, which is no tensor";
    if (m.dims.empty() || m.dims.size() > 5 || m.box.size() != m.dims.size() ||
        m.strides_bytes.size() + 1 != m.dims.size())
      return "the tensor map of `" + m.tensor + "` has " + std::to_string(m.dims.size()) +
             " dims, " + std::to_string(m.strides_bytes.size()) + " strides and a box of " +
             std::to_string(m.box.size());
  }
  for (const EntryParam& p : image.params) {
    if (p.kind == EntryParam::Kind::kTensorPointer && !tensors.count(p.name))
      return "a parameter points to `" + p.name + "`, which is no tensor";
    if (p.kind == EntryParam::Kind::kScalar && !scalars.count(p.name))
      return "a parameter is `" + p.name + "`, which is no scalar";
  }
  for (const AlignmentFact& a : image.alignment)
    if (!tensors.count(a.tensor)) return "`" + a.tensor + "` is aligned, but no tensor";
  return "";
}

}  // namespace

std::string ToJson(const KernelImage& image) {
  Json out;
  out["version"] = kVersion;
  out["name"] = image.name;
  out["entry"] = image.entry;
  out["target"] = image.target;
  out["block"] = image.block;
  out["smem_bytes"] = image.smem_bytes;
  out["grid"] = Json::array({ToText(image.grid[0]), ToText(image.grid[1]), ToText(image.grid[2])});
  out["cluster"] = Json::array({image.cluster[0], image.cluster[1], image.cluster[2]});
  out["dependent_launch"] = image.dependent_launch;
  out["dependent_if_full"] = image.dependent_if_full;
  const auto put = [](Json& tensors, const std::vector<TensorArg>& all) {
    tensors = Json::array();
    for (const TensorArg& t : all)
      tensors.push_back({{"name", t.name},
                         {"dtype", t.dtype},
                         {"direction", Spelling(t.direction)},
                         {"dims", Texts(t.dims)},
                         {"strided_any", t.strided_any}});
  };
  put(out["tensors"], image.tensors);
  if (!image.work.empty()) put(out["work"], image.work);
  Json& scalars = out["scalars"] = Json::array();
  for (const ScalarArg& s : image.scalars)
    scalars.push_back({{"name", s.name}, {"dtype", s.dtype}});
  Json& statics = out["statics"] = Json::object();
  for (const auto& [name, value] : image.statics) statics[name] = value;
  if (!image.wide.empty()) out["wide"] = image.wide;
  Json& maps = out["tensor_maps"] = Json::array();
  for (const TensorMapRecipe& m : image.tensor_maps)
    maps.push_back({{"tensor", m.tensor},
                    {"dtype", m.dtype},
                    {"dims", Texts(m.dims)},
                    {"strides_bytes", Texts(m.strides_bytes)},
                    {"box", m.box},
                    {"swizzle_bytes", m.swizzle_bytes}});
  Json& params = out["params"] = Json::array();
  for (const EntryParam& p : image.params)
    params.push_back({{"kind", Spelling(p.kind)},
                      {"name", p.name},
                      {"map", p.map},
                      {"value", ToText(p.value)},
                      {"dtype", p.dtype}});
  Json& facts = out["facts"] = Json::array();
  for (const Fact& f : image.facts)
    facts.push_back({{"condition", ToText(f.condition)}, {"text", f.text}});
  Json& alignment = out["alignment"] = Json::array();
  for (const AlignmentFact& a : image.alignment)
    alignment.push_back({{"tensor", a.tensor}, {"base_bytes", a.base_bytes}});
  Json& lines = out["lines"] = Json::array();
  for (const SourceLine& l : image.lines)
    lines.push_back({{"ptx_line", l.ptx_line},
                     {"file", l.file},
                     {"line", l.line},
                     {"column", l.column},
                     {"op", l.op}});
  Json& roles = out["roles"] = Json::array();
  for (const RoleRange& role : image.roles)
    roles.push_back({{"name", role.name}, {"first_warp", role.first_warp}, {"warps", role.warps}});
  Json& shared = out["shared"] = Json::array();
  for (const SharedObject& o : image.shared)
    shared.push_back(
        {{"name", o.name}, {"offset", o.offset}, {"bytes", o.bytes}, {"slots", o.slots}});
  out["ptx"] = image.ptx;
  for (const KernelImage& before : image.before)
    out["before"].push_back(Json::parse(ToJson(before)));
  // Bytes of a path that are no UTF-8 are replaced, not thrown over.
  return out.dump(1, ' ', false, Json::error_handler_t::replace);
}

bool FromJson(const std::string& text, KernelImage* image, std::string* why) {
  why->clear();
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    *why = "the text is not JSON";
    return false;
  }
  KernelImage out;
  Reader r(json, "", why);
  int version = 0;
  r.Read("version", &version);
  if (r.ok() && version != kVersion) r.Fail("version", "is " + std::to_string(version));
  r.Read("name", &out.name);
  r.Read("entry", &out.entry);
  r.Read("target", &out.target);
  r.Read("block", &out.block);
  r.Read("smem_bytes", &out.smem_bytes);
  std::vector<Expr> grid;
  std::vector<int64_t> cluster;
  r.Read("grid", &grid);
  r.Read("cluster", &cluster);
  r.Read("dependent_launch", &out.dependent_launch);
  r.Read("dependent_if_full", &out.dependent_if_full);
  if (r.ok() && grid.size() != 3) r.Fail("grid", "has not three entries");
  if (r.ok() && cluster.size() != 3) r.Fail("cluster", "has not three entries");
  for (size_t i = 0; i < 3 && r.ok(); ++i) {
    out.grid[i] = grid[i];
    out.cluster[i] = static_cast<int>(cluster[i]);
    if (cluster[i] < 1 || cluster[i] > 16) r.Fail("cluster", "is out of range");
  }
  if (r.ok() && (out.block < 1 || out.block > 1024)) r.Fail("block", "is out of range");
  if (r.ok() && (out.smem_bytes < 0 || out.smem_bytes > (int64_t{1} << 30)))
    r.Fail("smem_bytes", "is out of range");
  const auto tensor = [](Reader& t) {
    TensorArg arg;
    std::string direction;
    t.Read("name", &arg.name);
    t.Read("dtype", &arg.dtype);
    t.Read("direction", &direction);
    t.Read("dims", &arg.dims);
    t.Read("strided_any", &arg.strided_any);
    if (direction == "in")
      arg.direction = Direction::kIn;
    else if (direction == "out")
      arg.direction = Direction::kOut;
    else if (direction == "inout")
      arg.direction = Direction::kInOut;
    else
      t.Fail("direction", "is none of in, out, inout");
    return arg;
  };
  r.Objects("tensors", [&](Reader& t) { out.tensors.push_back(tensor(t)); });
  if (json.is_object() && json.contains("work"))
    r.Objects("work", [&](Reader& t) { out.work.push_back(tensor(t)); });
  r.Objects("scalars", [&](Reader& s) {
    ScalarArg arg;
    s.Read("name", &arg.name);
    s.Read("dtype", &arg.dtype);
    out.scalars.push_back(std::move(arg));
  });
  r.Members("statics", [&](const std::string& name, int64_t v) { out.statics[name] = v; });
  if (json.is_object() && json.contains("wide")) r.Read("wide", &out.wide);
  r.Objects("tensor_maps", [&](Reader& m) {
    TensorMapRecipe recipe;
    m.Read("tensor", &recipe.tensor);
    m.Read("dtype", &recipe.dtype);
    m.Read("dims", &recipe.dims);
    m.Read("strides_bytes", &recipe.strides_bytes);
    m.Read("box", &recipe.box);
    m.Read("swizzle_bytes", &recipe.swizzle_bytes);
    out.tensor_maps.push_back(std::move(recipe));
  });
  r.Objects("params", [&](Reader& p) {
    EntryParam param;
    std::string kind;
    p.Read("kind", &kind);
    p.Read("name", &param.name);
    p.Read("map", &param.map);
    p.Read("value", &param.value);
    p.Read("dtype", &param.dtype);
    if (kind == "pointer")
      param.kind = EntryParam::Kind::kTensorPointer;
    else if (kind == "map")
      param.kind = EntryParam::Kind::kTensorMap;
    else if (kind == "int")
      param.kind = EntryParam::Kind::kInt;
    else if (kind == "scalar")
      param.kind = EntryParam::Kind::kScalar;
    else
      p.Fail("kind", "is none of pointer, map, int, scalar");
    if (param.kind == EntryParam::Kind::kTensorMap &&
        (param.map < 0 || static_cast<size_t>(param.map) >= out.tensor_maps.size()))
      p.Fail("map", "names no tensor map");
    out.params.push_back(std::move(param));
  });
  r.Objects("facts", [&](Reader& f) {
    Fact fact;
    f.Read("condition", &fact.condition);
    f.Read("text", &fact.text);
    out.facts.push_back(std::move(fact));
  });
  r.Objects("alignment", [&](Reader& a) {
    AlignmentFact fact;
    a.Read("tensor", &fact.tensor);
    a.Read("base_bytes", &fact.base_bytes);
    if (fact.base_bytes < 1) a.Fail("base_bytes", "is out of range");
    out.alignment.push_back(std::move(fact));
  });
  r.Objects("lines", [&](Reader& l) {
    SourceLine line;
    l.Read("ptx_line", &line.ptx_line);
    l.Read("file", &line.file);
    l.Read("line", &line.line);
    l.Read("column", &line.column);
    l.Read("op", &line.op);
    out.lines.push_back(std::move(line));
  });
  r.Objects("roles", [&](Reader& x) {
    RoleRange role;
    x.Read("name", &role.name);
    x.Read("first_warp", &role.first_warp);
    x.Read("warps", &role.warps);
    out.roles.push_back(std::move(role));
  });
  r.Objects("shared", [&](Reader& x) {
    SharedObject o;
    x.Read("name", &o.name);
    x.Read("offset", &o.offset);
    x.Read("bytes", &o.bytes);
    x.Read("slots", &o.slots);
    if (o.bytes < 1 || o.slots < 1) x.Fail("bytes", "is out of range");
    out.shared.push_back(std::move(o));
  });
  r.Read("ptx", &out.ptx);
  if (!r.ok()) return false;
  if (const auto before = json.find("before"); before != json.end()) {
    if (!before->is_array()) return *why = "`before` is not a list", false;
    for (const Json& text : *before)
      if (!FromJson(text.dump(), &out.before.emplace_back(), why)) return false;
  }
  if (*why = Dangling(out); !why->empty()) return false;
  *image = std::move(out);
  return true;
}

}  // namespace tilec::backend
