// KernelImage as JSON: what the cache on disk and `tilec build` store. kernel_image_read.cc reads
// it again.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/kernel_image.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/kernel_image_text.h"

namespace tilec::backend {

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

namespace {

using Json = nlohmann::ordered_json;

Json Texts(const std::vector<Expr>& list) {
  Json out = Json::array();
  for (const Expr& e : list) out.push_back(ToText(e));
  return out;
}

}  // namespace

std::string ToJson(const KernelImage& image) {
  Json out;
  const bool steps = std::any_of(image.tensor_maps.begin(), image.tensor_maps.end(),
                                 [](const TensorMapRecipe& map) { return !map.steps.empty(); });
  out["version"] = steps ? kImageVersionOfSteps : kImageVersion;
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
  for (const TensorMapRecipe& m : image.tensor_maps) {
    maps.push_back({{"tensor", m.tensor},
                    {"dtype", m.dtype},
                    {"dims", Texts(m.dims)},
                    {"strides_bytes", Texts(m.strides_bytes)},
                    {"box", m.box},
                    {"swizzle_bytes", m.swizzle_bytes}});
    if (!m.steps.empty()) maps.back()["steps"] = m.steps;
  }
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

}  // namespace tilec::backend
