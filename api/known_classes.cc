// SPDX-License-Identifier: Apache-2.0
#include "api/known_classes.h"

#include <algorithm>
#include <bit>

#include "api/size_classes.h"

namespace tilec::api {

namespace {

using frontend::ParamInfo;
using frontend::ParamRole;
using frontend::Signature;

bool OfName(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool Mentions(const frontend::FactInfo& fact, const std::string& name) {
  const std::string& text = fact.text;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !OfName(text[at - 1])) && (end == text.size() || !OfName(text[end])))
      return true;
  }
  return false;
}

bool AsksOf(const Signature& signature, const std::string& name) {
  return std::any_of(signature.facts.begin(), signature.facts.end(),
                     [&](const frontend::FactInfo& fact) { return Mentions(fact, name); });
}

bool ToldByClass(const Signature& signature) {
  return std::none_of(signature.facts.begin(), signature.facts.end(),
                      [&](const frontend::FactInfo& fact) {
                        bool floats = false, whole = false;
                        for (const ParamInfo& p : signature.params)
                          if (p.role == ParamRole::kScalar && Mentions(fact, p.name))
                            (ir::IsFloat(p.dtype) ? floats : whole) = true;
                        for (const frontend::DimInfo& dim : signature.dims)
                          whole = whole || Mentions(fact, dim.name);
                        return floats && whole;
                      });
}

bool AddWord(int64_t word, ReadLaunch* launch) {
  if (launch->word_count == ReadLaunch::kWords) return false;
  launch->words[launch->word_count++] = word;
  return true;
}

int64_t WordOf(const frontend::ConstValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  return std::bit_cast<int64_t>(std::get<double>(value));
}

constexpr int64_t kLeftOut = -1;  // beside a value's index

}  // namespace

ClassReader::ClassReader(const Signature& signature) : tells_(ToldByClass(signature)) {
  for (const ParamInfo& p : signature.params) {
    if (p.role == ParamRole::kTensor) {
      tensors_.push_back({&p, in_order_.size()});
      in_order_.push_back(&p);
      tells_ = tells_ && p.dims.size() <= ReadLaunch::kDims;
      continue;
    }
    ValuePlace value{&p.name, Kind::kCompiledIn, p.dtype};
    if (p.default_value) value.standard = &*p.default_value;
    if (p.role == ParamRole::kScalar) {
      value.kind = Kind::kScalar;
      value.scalar = scalars_.size();
      value.asked = AsksOf(signature, p.name);
      scalars_.push_back(&p);
    } else {
      value.standard = nullptr;  // the front end has it
    }
    value.needed = !p.default_value;
    values_.push_back(value);
  }
  for (const frontend::DimInfo& d : signature.dims)
    values_.push_back({&d.name, Kind::kDim, ir::DType::kI64});
  for (const frontend::TuneInfo& t : signature.tunes)
    values_.push_back({&t.name, Kind::kCompiledIn, TypeOf(signature, t.name)});
  std::sort(tensors_.begin(), tensors_.end(),
            [](const auto& a, const auto& b) { return a.param->name < b.param->name; });
  std::sort(values_.begin(), values_.end(),
            [](const auto& a, const auto& b) { return *a.name < *b.name; });
  tells_ =
      tells_ && tensors_.size() <= ReadLaunch::kTensors && values_.size() <= ReadLaunch::kScalars;
  for (const frontend::DimInfo& d : signature.dims) {
    DimPlace place{&d, signature.IsStatic(d.name)};
    for (size_t t = in_order_.size(); t-- > 0;)
      for (size_t i = in_order_[t]->dims.size(); i-- > 0;)
        if (const Expr& e = in_order_[t]->dims[i]; e.op == Expr::Op::kName && e.name == d.name)
          place.tensor = static_cast<int>(t), place.at = static_cast<int>(i);
    dims_.push_back(place);
  }
}

bool ClassReader::Fits(const backend::KernelImage& image) const {
  const auto same = [](const ParamInfo* p, const auto& arg) { return p->name == arg.name; };
  return std::equal(in_order_.begin(), in_order_.end(), image.tensors.begin(), image.tensors.end(),
                    same) &&
         std::equal(scalars_.begin(), scalars_.end(), image.scalars.begin(), image.scalars.end(),
                    same);
}

bool ClassReader::ReadTensor(const TensorPlace& place, const Tensor& tensor,
                             ReadLaunch* launch) const {
  const size_t rank = tensor.dims.size();
  if (rank != place.param->dims.size() ||
      (!tensor.strides.empty() && tensor.strides.size() != rank))
    return false;
  int64_t* steps = launch->steps[place.index].data();
  const int bytes = Bytes(tensor.dtype);
  runtime::StepsOf(bytes, tensor.dims, tensor.strides, steps);
  launch->tensors[place.index] = {
      Name(tensor.dtype), tensor.data, tensor.dims, tensor.strides, {steps, rank}};
  const runtime::TensorFacts f = runtime::FactsOf(bytes, tensor.data, tensor.dims, {steps, rank});
  // Facts are powers of two up to 16, row starts up to a line.
  const int64_t facts = int64_t{f.base_align_bytes} | int64_t{f.stride_align_bytes} << 8 |
                        int64_t{f.last_dim_align} << 16 | int64_t{f.last_contiguous} << 24 |
                        RowStart(tensor.dims, {steps, rank}, place.param->dtype) << 32;
  return AddWord(facts, launch);
}

bool ClassReader::ReadValues(const std::map<std::string, Value>& values, ReadLaunch* launch) const {
  auto given = values.begin();
  for (const ValuePlace& place : values_) {
    std::optional<frontend::ConstValue> value;
    if (given != values.end() && given->first == *place.name) {
      value = Convert(place.dtype, std::visit([](auto v) { return frontend::ConstValue(v); },
                                              (given++)->second));
      if (!value) return false;
    } else if (place.standard) {
      value = *place.standard;
    }
    if (!value && place.needed) return false;
    if (place.kind == Kind::kDim) {
      if (value) launch->dims[launch->dim_count++] = {*place.name, std::get<int64_t>(*value)};
      continue;
    }
    if (place.kind == Kind::kScalar) {
      const auto scalar = ForLaunch(*value);
      if (!scalar) return false;
      launch->scalars[place.scalar] = *scalar;
      const auto* whole = std::get_if<int64_t>(&*value);
      if (!whole && !place.asked) continue;
      if (whole) value = ClassOf(*whole, kScalarDigits);
    }
    if (!AddWord(value ? static_cast<int64_t>(value->index()) : kLeftOut, launch) ||
        !AddWord(value ? WordOf(*value) : 0, launch))
      return false;
  }
  launch->scalar_count = scalars_.size();
  return given == values.end();
}

bool ClassReader::ReadDims(ReadLaunch* launch) const {
  for (const DimPlace& place : dims_) {
    std::optional<int64_t> size;
    for (size_t i = 0; i < launch->dim_count && !size; ++i)
      if (launch->dims[i].name == place.dim->name) size = launch->dims[i].size;
    if (!size && place.tensor >= 0)
      size = launch->tensors[static_cast<size_t>(place.tensor)].dims[static_cast<size_t>(place.at)];
    if (!size) return false;
    const bool compiled_in = place.is_static || place.dim->Takes(*size);
    if (!AddWord(compiled_in, launch) || !AddWord(compiled_in ? *size : ClassOf(*size), launch))
      return false;
  }
  return true;
}

bool ClassReader::Read(const Args& args, const void* device, ReadLaunch* launch) const {
  if (!tells_ || args.tensors().size() != tensors_.size()) return false;
  launch->tensor_count = tensors_.size();
  launch->scalar_count = launch->dim_count = launch->word_count = 0;
  if (!AddWord(reinterpret_cast<intptr_t>(device), launch)) return false;
  auto given = args.tensors().begin();
  for (const TensorPlace& place : tensors_) {
    const auto& [name, tensor] = *given++;
    if (name != place.param->name || !ReadTensor(place, tensor, launch)) return false;
  }
  return ReadValues(args.values(), launch) && ReadDims(launch);
}

size_t KnownClasses::Hash::operator()(Words words) const {
  uint64_t hash = words.size();
  for (const int64_t word : words) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash;
}

void KnownClasses::Keep(std::span<const int64_t> key, runtime::LoadedKernel* program) {
  if (programs_.size() >= kMost) programs_.clear();
  programs_.insert_or_assign({key.begin(), key.end()}, program);
}

}  // namespace tilec::api
