// The text of an image, read again. Nothing of it is trusted: a damaged text gives false and a
// reason that names the field.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/kernel_image.h"
#include "backend/kernel_image_text.h"

namespace tilec::backend {
namespace {

using Json = nlohmann::ordered_json;

// Fields of one object. The first failure sticks in *why; later reads do nothing.
class Reader {
 public:
  Reader(const Json& object, std::string path, std::string* why)
      : object_(object), path_(std::move(path)), why_(why) {
    if (!object_.is_object()) Fail("", "is not an object");
  }
  bool ok() const { return why_->empty(); }
  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }

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

void Fields(Reader& r, TensorArg* arg) {
  std::string direction;
  r.Read("name", &arg->name);
  r.Read("dtype", &arg->dtype);
  r.Read("direction", &direction);
  r.Read("dims", &arg->dims);
  r.Read("strided_any", &arg->strided_any);
  for (const Direction d : {Direction::kIn, Direction::kOut, Direction::kInOut})
    if (direction == Spelling(d)) {
      arg->direction = d;
      return;
    }
  r.Fail("direction", "is none of in, out, inout");
}

void Fields(Reader& r, ScalarArg* arg) {
  r.Read("name", &arg->name);
  r.Read("dtype", &arg->dtype);
}

void Fields(Reader& r, TensorMapRecipe* recipe) {
  r.Read("tensor", &recipe->tensor);
  r.Read("dtype", &recipe->dtype);
  r.Read("dims", &recipe->dims);
  r.Read("strides_bytes", &recipe->strides_bytes);
  r.Read("box", &recipe->box);
  r.Read("swizzle_bytes", &recipe->swizzle_bytes);
  if (r.Has("steps")) r.Read("steps", &recipe->steps);
}

void Fields(Reader& r, EntryParam* param) {
  using Kind = EntryParam::Kind;
  std::string kind;
  r.Read("kind", &kind);
  r.Read("name", &param->name);
  r.Read("map", &param->map);
  r.Read("value", &param->value);
  r.Read("dtype", &param->dtype);
  for (const Kind k : {Kind::kTensorPointer, Kind::kTensorMap, Kind::kInt, Kind::kScalar})
    if (kind == Spelling(k)) {
      param->kind = k;
      return;
    }
  r.Fail("kind", "is none of pointer, map, int, scalar");
}

void Fields(Reader& r, Fact* fact) {
  r.Read("condition", &fact->condition);
  r.Read("text", &fact->text);
}

void Fields(Reader& r, AlignmentFact* fact) {
  r.Read("tensor", &fact->tensor);
  r.Read("base_bytes", &fact->base_bytes);
  if (fact->base_bytes < 1) r.Fail("base_bytes", "is out of range");
}

void Fields(Reader& r, SourceLine* line) {
  r.Read("ptx_line", &line->ptx_line);
  r.Read("file", &line->file);
  r.Read("line", &line->line);
  r.Read("column", &line->column);
  r.Read("op", &line->op);
}

void Fields(Reader& r, RoleRange* role) {
  r.Read("name", &role->name);
  r.Read("first_warp", &role->first_warp);
  r.Read("warps", &role->warps);
}

void Fields(Reader& r, SharedObject* object) {
  r.Read("name", &object->name);
  r.Read("offset", &object->offset);
  r.Read("bytes", &object->bytes);
  r.Read("slots", &object->slots);
  if (object->bytes < 1 || object->slots < 1) r.Fail("bytes", "is out of range");
}

template <typename T>
void ReadAll(Reader& r, const char* key, std::vector<T>* out) {
  r.Objects(key, [&](Reader& each) { Fields(each, &out->emplace_back()); });
}

// What a launch is made of: threads, CTAs of a cluster, the grid.
void ReadShape(Reader& r, KernelImage* image) {
  r.Read("block", &image->block);
  r.Read("smem_bytes", &image->smem_bytes);
  std::vector<Expr> grid;
  std::vector<int64_t> cluster;
  r.Read("grid", &grid);
  r.Read("cluster", &cluster);
  r.Read("dependent_launch", &image->dependent_launch);
  r.Read("dependent_if_full", &image->dependent_if_full);
  if (r.ok() && grid.size() != 3) r.Fail("grid", "has not three entries");
  if (r.ok() && cluster.size() != 3) r.Fail("cluster", "has not three entries");
  for (size_t i = 0; i < 3 && r.ok(); ++i) {
    image->grid[i] = grid[i];
    image->cluster[i] = static_cast<int>(cluster[i]);
    if (cluster[i] < 1 || cluster[i] > 16) r.Fail("cluster", "is out of range");
  }
  if (r.ok() && (image->block < 1 || image->block > 1024)) r.Fail("block", "is out of range");
  if (r.ok() && (image->smem_bytes < 0 || image->smem_bytes > (int64_t{1} << 30)))
    r.Fail("smem_bytes", "is out of range");
}

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
    const bool steps = std::all_of(m.steps.begin(), m.steps.end(),
                                   [](int64_t step) { return step >= 1 && step <= 8; });
    if (!steps || (!m.steps.empty() && m.steps.size() != m.box.size()))
      return "the tensor map of `" + m.tensor + "` has a box of " + std::to_string(m.box.size()) +
             " dims and " + std::to_string(m.steps.size()) + " steps of 1 to 8";
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

bool FromJson(const std::string& text, KernelImage* image, std::string* why) {
  why->clear();
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    *why = "the text is not JSON";
    return false;
  }
  const auto has = [&](const char* key) { return json.is_object() && json.contains(key); };
  KernelImage out;
  Reader r(json, "", why);
  int version = 0;
  r.Read("version", &version);
  if (r.ok() && version != kImageVersion && version != kImageVersionOfSteps)
    r.Fail("version", "is " + std::to_string(version));
  r.Read("name", &out.name);
  r.Read("entry", &out.entry);
  r.Read("target", &out.target);
  ReadShape(r, &out);
  ReadAll(r, "tensors", &out.tensors);
  if (has("work")) ReadAll(r, "work", &out.work);
  ReadAll(r, "scalars", &out.scalars);
  r.Members("statics", [&](const std::string& name, int64_t v) { out.statics[name] = v; });
  if (has("wide")) r.Read("wide", &out.wide);
  ReadAll(r, "tensor_maps", &out.tensor_maps);
  r.Objects("params", [&](Reader& p) {
    EntryParam& param = out.params.emplace_back();
    Fields(p, &param);
    if (param.kind == EntryParam::Kind::kTensorMap &&
        (param.map < 0 || static_cast<size_t>(param.map) >= out.tensor_maps.size()))
      p.Fail("map", "names no tensor map");
  });
  ReadAll(r, "facts", &out.facts);
  ReadAll(r, "alignment", &out.alignment);
  ReadAll(r, "lines", &out.lines);
  ReadAll(r, "roles", &out.roles);
  ReadAll(r, "shared", &out.shared);
  r.Read("ptx", &out.ptx);
  if (!r.ok()) return false;
  if (const auto before = json.find("before"); before != json.end()) {
    if (!before->is_array()) return *why = "`before` is not a list", false;
    for (const Json& one : *before)
      if (!FromJson(one.dump(), &out.before.emplace_back(), why)) return false;
  }
  if (*why = Dangling(out); !why->empty()) return false;
  *image = std::move(out);
  return true;
}

}  // namespace tilec::backend
