// (operation, type, flags) → handler; part of alu_impl.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

template <template <class> class Op, class T>
Handler I1() {
  return Map1<Op<T>, Lane<T>, Lane<T>>;
}
template <template <class> class Op, class T>
Handler I2() {
  return Map2<Op<T>, Lane<T>, Lane<T>, Lane<T>>;
}
template <template <class> class Op, class T>
Handler I3() {
  return Map3<Op<T>, Lane<T>, Lane<T>, Lane<T>, Lane<T>>;
}

template <class T>
Handler FindInt(AluOp op, AluFlags f) {
  switch (op) {
    case AluOp::kMov: return I1<IMov, T>();
    case AluOp::kAdd: return I2<IAdd, T>();
    case AluOp::kSub: return I2<ISub, T>();
    case AluOp::kMul: return I2<IMul, T>();
    case AluOp::kMulHi: return I2<IMulHi, T>();
    case AluOp::kMad: return I3<IMad, T>();
    case AluOp::kMadHi: return I3<IMadHi, T>();
    case AluOp::kMulWide:
      if constexpr (sizeof(T) < 8) return Map2<IMulWide<T>, Lane<Wide<T>>, Lane<T>, Lane<T>>;
      return nullptr;
    case AluOp::kMadWide:
      if constexpr (sizeof(T) < 8)
        return Map3<IMadWide<T>, Lane<Wide<T>>, Lane<T>, Lane<T>, Lane<Wide<T>>>;
      return nullptr;
    case AluOp::kDiv: return I2<IDiv, T>();
    case AluOp::kRem: return I2<IRem, T>();
    case AluOp::kMin: return f.relu ? I2<IMinRelu, T>() : I2<IMin, T>();
    case AluOp::kMax: return f.relu ? I2<IMaxRelu, T>() : I2<IMax, T>();
    case AluOp::kNeg: return I1<INeg, T>();
    case AluOp::kAbs: return I1<IAbs, T>();
    case AluOp::kAnd: return I2<IAnd, T>();
    case AluOp::kOr: return I2<IOr, T>();
    case AluOp::kXor: return I2<IXor, T>();
    case AluOp::kNot: return I1<INot, T>();
    case AluOp::kCnot: return I1<ICnot, T>();
    case AluOp::kShl: return Map2<IShl<T>, Lane<T>, Lane<T>, uint32_t>;
    case AluOp::kShr: return Map2<IShr<T>, Lane<T>, Lane<T>, uint32_t>;
    case AluOp::kSad: return I3<ISad, T>();
    case AluOp::kBfe: return Map3<Bfe<T>, Lane<T>, Lane<T>, uint32_t, uint32_t>;
    case AluOp::kBfi: return BfiStep<T>;
    case AluOp::kPopc: return Map1<Popc<T>, uint32_t, Lane<T>>;
    case AluOp::kClz: return Map1<Clz<T>, uint32_t, Lane<T>>;
    case AluOp::kBfind:
      return f.shiftamt ? Handler(Map1<Bfind<T, true>, uint32_t, Lane<T>>)
                        : Handler(Map1<Bfind<T, false>, uint32_t, Lane<T>>);
    case AluOp::kBrev: return I1<Brev, T>();
    case AluOp::kSelp: return Selp<Lane<T>>;
    case AluOp::kPrmt: return Prmt;
    case AluOp::kLop3: return Lop3;
    case AluOp::kDp4a: return Dp4a;
    case AluOp::kShfL:
      return f.wrap ? Handler(Map3<ShfL<true>, uint32_t, uint32_t, uint32_t, uint32_t>)
                    : Handler(Map3<ShfL<false>, uint32_t, uint32_t, uint32_t, uint32_t>);
    case AluOp::kShfR:
      return f.wrap ? Handler(Map3<ShfR<true>, uint32_t, uint32_t, uint32_t, uint32_t>)
                    : Handler(Map3<ShfR<false>, uint32_t, uint32_t, uint32_t, uint32_t>);
    case AluOp::kFma:
    case AluOp::kBmsk:
    case AluOp::kCopysign:
    case AluOp::kSzext:
    case AluOp::kSet: return nullptr;
  }
  return nullptr;
}

template <class Op>
constexpr Handler U1 = Map1<Op, uint32_t, uint32_t>;
template <class Op>
constexpr Handler U2 = Map2<Op, uint32_t, uint32_t, uint32_t>;
template <class Op>
constexpr Handler U3 = Map3<Op, uint32_t, uint32_t, uint32_t, uint32_t>;
template <class Op>
constexpr Handler D1 = Map1<Op, uint64_t, uint64_t>;
template <class Op>
constexpr Handler D2 = Map2<Op, uint64_t, uint64_t, uint64_t>;
template <class Op>
constexpr Handler D3 = Map3<Op, uint64_t, uint64_t, uint64_t, uint64_t>;

// Picks Op<ftz, sat> by two run-time flags.
#define PICK2(kind, Op, a, b)                                 \
  ((a) ? ((b) ? kind<Op<true, true>> : kind<Op<true, false>>) \
       : ((b) ? kind<Op<false, true>> : kind<Op<false, false>>))

Handler FindF32(AluOp op, AluFlags f) {
  if (op == AluOp::kAdd) return PICK2(U2, FAdd, f.ftz, f.sat);
  if (op == AluOp::kSub) return PICK2(U2, FSub, f.ftz, f.sat);
  if (op == AluOp::kMul) return PICK2(U2, FMul, f.ftz, f.sat);
  if (op == AluOp::kFma) return PICK2(U3, FFma, f.ftz, f.sat);
  if (op == AluOp::kDiv) return f.ftz ? U2<FDiv<true>> : U2<FDiv<false>>;
  if (op == AluOp::kMax && f.xorsign)
    return f.nan ? U2<FXorSign<true, true>> : U2<FXorSign<true, false>>;
  if (op == AluOp::kMin && f.xorsign)
    return f.nan ? U2<FXorSign<false, true>> : U2<FXorSign<false, false>>;
  if (op == AluOp::kMax) return PICK2(U2, FMax, f.ftz, f.nan);
  if (op == AluOp::kMin) return PICK2(U2, FMin, f.ftz, f.nan);
  if (op == AluOp::kNeg) return f.ftz ? U1<FNeg<true>> : U1<FNeg<false>>;
  if (op == AluOp::kAbs) return f.ftz ? U1<FAbs<true>> : U1<FAbs<false>>;
  if (op == AluOp::kCopysign) return U2<FCopysign>;
  if (op == AluOp::kMov) return I1<IMov, uint32_t>();
  if (op == AluOp::kSelp) return Selp<uint32_t>;
  return nullptr;
}

Handler FindF64(AluOp op) {
  if (op == AluOp::kAdd) return D2<DAdd>;
  if (op == AluOp::kSub) return D2<DSub>;
  if (op == AluOp::kMul) return D2<DMul>;
  if (op == AluOp::kDiv) return D2<DDiv>;
  if (op == AluOp::kFma) return D3<DFma>;
  if (op == AluOp::kMax) return D2<DMinMax<true>>;
  if (op == AluOp::kMin) return D2<DMinMax<false>>;
  if (op == AluOp::kNeg) return D1<DNeg>;
  if (op == AluOp::kAbs) return D1<DAbs>;
  if (op == AluOp::kCopysign) return D2<DCopysign>;
  if (op == AluOp::kMov) return I1<IMov, uint64_t>();
  if (op == AluOp::kSelp) return Selp<uint64_t>;
  return nullptr;
}

#define HALF1(packed, op, ftz)                                             \
  ((packed) ? (ftz) ? U1<Halves1<op<K, true>>> : U1<Halves1<op<K, false>>> \
   : (ftz) ? U1<op<K, true>>                                               \
            : U1<op<K, false>>)
#define HALF2(packed, ...) ((packed) ? U2<Halves2<__VA_ARGS__>> : U2<__VA_ARGS__>)
#define HALF3(packed, ...) ((packed) ? U3<Halves3<__VA_ARGS__>> : U3<__VA_ARGS__>)
template <class K>
Handler FindHalf(AluOp op, AluFlags f, bool packed) {
  if (op == AluOp::kAdd)
    return f.sat && f.ftz ? HALF2(packed, HAdd<K, true, true>)
           : f.sat        ? HALF2(packed, HAdd<K, false, true>)
           : f.ftz        ? HALF2(packed, HAdd<K, true, false>)
                          : HALF2(packed, HAdd<K, false, false>);
  if (op == AluOp::kSub)
    return f.sat && f.ftz ? HALF2(packed, HSub<K, true, true>)
           : f.sat        ? HALF2(packed, HSub<K, false, true>)
           : f.ftz        ? HALF2(packed, HSub<K, true, false>)
                          : HALF2(packed, HSub<K, false, false>);
  if (op == AluOp::kMul)
    return f.sat && f.ftz ? HALF2(packed, HMul<K, true, true>)
           : f.sat        ? HALF2(packed, HMul<K, false, true>)
           : f.ftz        ? HALF2(packed, HMul<K, true, false>)
                          : HALF2(packed, HMul<K, false, false>);
  if (op == AluOp::kFma) {
    if (f.relu && f.ftz) return HALF3(packed, HFma<K, true, false, true>);
    if (f.relu) return HALF3(packed, HFma<K, false, false, true>);
    if (f.sat && f.ftz) return HALF3(packed, HFma<K, true, true, false>);
    if (f.sat) return HALF3(packed, HFma<K, false, true, false>);
    return f.ftz ? HALF3(packed, HFma<K, true, false, false>)
                 : HALF3(packed, HFma<K, false, false, false>);
  }
#define MINMAX(kMax)                                                                              \
  (f.xorsign                                                                                      \
       ? f.nan ? HALF2(packed, HXorSign<K, kMax, true>) : HALF2(packed, HXorSign<K, kMax, false>) \
   : f.ftz ? f.nan ? HALF2(packed, HMinMax<K, kMax, true, true>)                                  \
                   : HALF2(packed, HMinMax<K, kMax, false, true>)                                 \
   : f.nan ? HALF2(packed, HMinMax<K, kMax, true, false>)                                         \
           : HALF2(packed, HMinMax<K, kMax, false, false>))
  if (op == AluOp::kMax) return MINMAX(true);
  if (op == AluOp::kMin) return MINMAX(false);
#undef MINMAX
  if (op == AluOp::kNeg) return HALF1(packed, HNeg, f.ftz);
  if (op == AluOp::kAbs) return HALF1(packed, HAbs, f.ftz);
  if (op == AluOp::kMov) return I1<IMov, uint32_t>();
  if (op == AluOp::kSelp) return Selp<uint32_t>;
  return nullptr;
}
#undef HALF1
#undef HALF2
#undef HALF3

Handler FindAlu(AluOp op, Type type, AluFlags f) {
  switch (type) {
    case Type::kB16:
    case Type::kU16: return FindInt<uint16_t>(op, f);
    case Type::kS16: return FindInt<int16_t>(op, f);
    case Type::kB32:
    case Type::kU32: return FindInt<uint32_t>(op, f);
    case Type::kS32:
      if (f.sat)
        return op == AluOp::kAdd ? U2<AddSat32> : op == AluOp::kSub ? U2<SubSat32> : nullptr;
      return FindInt<int32_t>(op, f);
    case Type::kB64:
    case Type::kU64: return FindInt<uint64_t>(op, f);
    case Type::kS64: return FindInt<int64_t>(op, f);
    case Type::kF32: return FindF32(op, f);
    case Type::kF64: return FindF64(op);
    case Type::kF16: return FindHalf<Hf>(op, f, false);
    case Type::kF16x2: return FindHalf<Hf>(op, f, true);
    case Type::kBF16: return FindHalf<Bf>(op, f, false);
    case Type::kBF16x2: return FindHalf<Bf>(op, f, true);
    case Type::kU8:
    case Type::kS8:
    case Type::kB8:
    case Type::kB128:
    case Type::kTF32:
    case Type::kE4M3:
    case Type::kE5M2:
    case Type::kE4M3x2:
    case Type::kE5M2x2:
    case Type::kPred:
    case Type::kNone: return nullptr;
  }
  return nullptr;
}

template <class K>
Handler FindCompareOf(Compare c) {
  switch (c) {
    case Compare::kEq: return Setp<K, Compare::kEq>;
    case Compare::kNe: return Setp<K, Compare::kNe>;
    case Compare::kLt: return Setp<K, Compare::kLt>;
    case Compare::kLe: return Setp<K, Compare::kLe>;
    case Compare::kGt: return Setp<K, Compare::kGt>;
    case Compare::kGe: return Setp<K, Compare::kGe>;
    case Compare::kEqu: return Setp<K, Compare::kEqu>;
    case Compare::kNeu: return Setp<K, Compare::kNeu>;
    case Compare::kLtu: return Setp<K, Compare::kLtu>;
    case Compare::kLeu: return Setp<K, Compare::kLeu>;
    case Compare::kGtu: return Setp<K, Compare::kGtu>;
    case Compare::kGeu: return Setp<K, Compare::kGeu>;
    case Compare::kNum: return Setp<K, Compare::kNum>;
    case Compare::kNan: return Setp<K, Compare::kNan>;
  }
  return nullptr;
}
template <class K, bool Z>
Handler FindComparePacked(Compare c) {
  switch (c) {
    case Compare::kEq: return SetpPacked<K, Z, Compare::kEq>;
    case Compare::kNe: return SetpPacked<K, Z, Compare::kNe>;
    case Compare::kLt: return SetpPacked<K, Z, Compare::kLt>;
    case Compare::kLe: return SetpPacked<K, Z, Compare::kLe>;
    case Compare::kGt: return SetpPacked<K, Z, Compare::kGt>;
    case Compare::kGe: return SetpPacked<K, Z, Compare::kGe>;
    case Compare::kEqu: return SetpPacked<K, Z, Compare::kEqu>;
    case Compare::kNeu: return SetpPacked<K, Z, Compare::kNeu>;
    case Compare::kLtu: return SetpPacked<K, Z, Compare::kLtu>;
    case Compare::kLeu: return SetpPacked<K, Z, Compare::kLeu>;
    case Compare::kGtu: return SetpPacked<K, Z, Compare::kGtu>;
    case Compare::kGeu: return SetpPacked<K, Z, Compare::kGeu>;
    case Compare::kNum: return SetpPacked<K, Z, Compare::kNum>;
    case Compare::kNan: return SetpPacked<K, Z, Compare::kNan>;
  }
  return nullptr;
}

Handler FindCompare(Compare c, Type type, bool ftz) {
  switch (type) {
    case Type::kB16:
    case Type::kU16: return FindCompareOf<CmpInt<uint16_t>>(c);
    case Type::kS16: return FindCompareOf<CmpInt<int16_t>>(c);
    case Type::kB32:
    case Type::kU32: return FindCompareOf<CmpInt<uint32_t>>(c);
    case Type::kS32: return FindCompareOf<CmpInt<int32_t>>(c);
    case Type::kB64:
    case Type::kU64: return FindCompareOf<CmpInt<uint64_t>>(c);
    case Type::kS64: return FindCompareOf<CmpInt<int64_t>>(c);
    case Type::kF32: return ftz ? FindCompareOf<CmpF32<true>>(c) : FindCompareOf<CmpF32<false>>(c);
    case Type::kF64: return FindCompareOf<CmpF64>(c);
    case Type::kF16: return FindCompareOf<CmpHalf<Hf>>(c);
    case Type::kBF16: return FindCompareOf<CmpHalf<Bf>>(c);
    case Type::kF16x2:
      return ftz ? FindComparePacked<Hf, true>(c) : FindComparePacked<Hf, false>(c);
    case Type::kBF16x2: return FindComparePacked<Bf, false>(c);
    case Type::kU8:
    case Type::kS8:
    case Type::kB8:
    case Type::kB128:
    case Type::kTF32:
    case Type::kE4M3:
    case Type::kE5M2:
    case Type::kE4M3x2:
    case Type::kE5M2x2:
    case Type::kPred:
    case Type::kNone: return nullptr;
  }
  return nullptr;
}
