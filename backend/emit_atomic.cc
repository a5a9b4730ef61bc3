// Atomics on tensors in global memory: which form the machine has for a type, what stands for those
// that it has not, several neighbouring sums as one, and what was found brought to all replicas.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>

#include <string>
#include <vector>

#include "backend/access.h"
#include "backend/diagnostics.h"
#include "backend/emitter.h"

namespace tilec::backend {

using ir::DType;

// One atomic as PTX writes it; `found`, if given, receives what was there.
void Emitter::AtomicAs(const AtomicForm& form, llvm::Value* value, const MemPlace& place,
                       llvm::Value** found) {
  std::vector<llvm::Value*> args = {place.address, I64(place.offset), value};
  llvm::Value* const when = place.predicate;
  if (found) {
    std::string constraints = std::string("=") + form.letter + ",l,n," + form.letter;
    if (when) {
      args.insert(args.end(), {when, llvm::Constant::getNullValue(value->getType())});
      constraints += ",b,0";
    }
    *found = CallPtx(b_, PtxInst::kAtomGlobal,
                     {{"p", when ? "@$4 " : ""},
                      {"op", form.what},
                      {"t", form.type},
                      {"old", "$0"},
                      {"ops", "$3"},
                      {"a", "$1"},
                      {"o", "$2"}},
                     constraints, args)[0];
    return;
  }
  std::string constraints = std::string("l,n,") + form.letter;
  if (when) args.push_back(when), constraints += ",b";
  CallPtx(b_, PtxInst::kRedGlobal,
          {{"p", when ? "@$3 " : ""},
           {"op", form.what},
           {"t", form.type},
           {"ops", "$2"},
           {"a", "$0"},
           {"o", "$1"}},
          constraints, args);
}

// The order of non-negative floats is that of their bits, of negative ones the reverse as unsigned;
// NaN takes no part.
void Emitter::AtomicFloatBound(bool max, llvm::Value* value, MemPlace place) {
  const bool wide = value->getType()->isDoubleTy();
  const std::string size = wide ? "64" : "32";
  const char letter = wide ? 'l' : 'r';
  llvm::Type* type = wide ? b_.getInt64Ty() : b_.getInt32Ty();
  llvm::Value* bits = b_.CreateBitCast(value, type);
  llvm::Value* ordered = b_.CreateFCmpORD(value, value);
  llvm::Value* negative = b_.CreateICmpSLT(bits, llvm::Constant::getNullValue(type));
  llvm::Value* when = And(place.predicate, ordered);
  place.predicate = And(when, b_.CreateNot(negative));
  AtomicAs({max ? "max" : "min", "s" + size, letter}, bits, place, nullptr);
  place.predicate = And(when, negative);
  AtomicAs({max ? "min" : "max", "u" + size, letter}, bits, place, nullptr);
}

// `found`, if given, receives what was there, 0 where nothing is done.
Result<void> Emitter::AtomicOne(const ir::Op& op, DType d, llvm::Value* value,
                                const MemPlace& place, llvm::Value** found) {
  if (found) *found = Zero(d);
  if (place.predicate == b_.getFalse()) return Done();
  const std::string& kind = op.s("kind");
  const int size = ir::ByteSize(d);
  const bool minmax = kind == "min" || kind == "max";
  const auto emit = [&](const std::string& what, const std::string& type, char letter) {
    AtomicAs({what, type, letter}, value, place, found);
    return Done();
  };
  const std::string bits = std::to_string(8 * size);
  const char letter = size == 8 ? 'l' : 'r';
  if (kind == "add") {
    if (d == DType::kF16) return emit("add.noftz", "f16", 'h');
    if (d == DType::kBF16 && options_.machine->Has("bf16_atomics"))
      return emit("add.noftz", "bf16", 'h');
    if (d == DType::kF32 || d == DType::kTF32) return emit("add", "f32", 'f');
    if (d == DType::kF64) return emit("add", "f64", 'd');
  }
  if (size == 2) {
    llvm::Value* old = Exchange16(kind, d, value, place);
    if (found) *found = old;
    return Done();
  }
  if (minmax && ir::IsFloat(d) && size >= 4 && !found) {
    AtomicFloatBound(kind == "max", value, place);
    return Done();
  }
  if (ir::IsFloat(d) || size < 4)
    return diags_.Report(kUnsupportedAtomic, op.at, kind, ir::Spelling(d), options_.target);
  if (kind == "add") return emit("add", "u" + bits, letter);
  if (minmax) return emit(kind, (ir::IsSigned(d) ? "s" : "u") + bits, letter);
  return emit(kind, "b" + bits, letter);
}

namespace {

// Sums of f32 that lie in a row go together, where the machine adds vectors.
void AddTogether(llvm::IRBuilder<>& b, llvm::Value* address, int64_t offset, llvm::Value* predicate,
                 const std::vector<llvm::Value*>& values) {
  const size_t n = values.size();
  std::vector<llvm::Value*> args = {address, b.getInt64(static_cast<uint64_t>(offset))};
  args.insert(args.end(), values.begin(), values.end());
  std::string constraints = "l,n", registers;
  for (size_t i = 0; i < n; ++i) {
    constraints += ",f";
    registers += (i ? ",$" : "$") + std::to_string(i + 2);
  }
  if (predicate) args.push_back(predicate), constraints += ",b";
  CallPtx(b, PtxInst::kRedGlobal,
          {{"p", predicate ? "@$" + std::to_string(n + 2) + " " : ""},
           {"op", "add.v" + std::to_string(n)},
           {"t", "f32"},
           {"ops", "{" + registers + "}"},
           {"a", "$0"},
           {"o", "$1"}},
          constraints, args);
}

}  // namespace

Result<void> Emitter::EmitGAtomic(const ir::Op& op) {
  if (op.results.empty() && op.attr("scratch")) {
    EmitCounted(op);
    return Done();
  }
  const ir::ValueId tile = op.operands[1];
  const ir::Type& type = fn_.type(tile);
  Access access = MakeAccess(op, tile, 2, true);
  const Regs& regs = Get(tile);
  access.always = And(access.always, Part(type.layout).first_replica);
  const bool together = op.i("vector", 1) > 1 && op.s("kind") == "add" &&
                        type.dtype == DType::kF32 && options_.machine->Has("vector_atomics");
  Regs found(op.results.empty() ? 0 : regs.size());
  for (const std::vector<int>& group : VectorsOf(fn_.layouts[type.layout], type.shape,
                                                 together ? op.i("vector") : 1, sizeof(float))) {
    const MemPlace place = PlaceOf(access, tile, group[0]);
    const auto value = [&](int r) { return regs[static_cast<size_t>(r)]; };
    if (group.size() == 1) {
      TRY_VOID(AtomicOne(op, type.dtype, value(group[0]), place,
                         found.empty() ? nullptr : &found[static_cast<size_t>(group[0])]));
    } else if (place.predicate != b_.getFalse()) {
      Regs values;
      for (int r : group) values.push_back(value(r));
      AddTogether(b_, place.address, place.offset, place.predicate, values);
    }
  }
  if (found.empty()) return Done();
  Set(op.results[0], std::move(found));
  if (op.i("scratch") >= 0) ShareReplicas(op.results[0], op.i("scratch"));
  return Done();
}

// What the first replica of each element has becomes that of all, through shared memory.
void Emitter::ShareReplicas(ir::ValueId tile, int64_t scratch) {
  const ir::Type& type = fn_.type(tile);
  PanelView view;
  view.base = SmemAddress(scratch);
  view.element_bytes = ir::ByteSize(type.dtype);
  view.panel_cols = int64_t{1} << 30;  // one panel
  view.pitch = ir::ConvertScratchTile(type).pitch;
  RoleBarrier();
  StoreTile(tile, view, false);
  RoleBarrier();
  Set(tile, LoadTile(type, type.layout, view, false));
}

}  // namespace tilec::backend
