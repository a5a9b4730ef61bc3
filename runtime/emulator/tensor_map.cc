// Encoding, validation and decoding of tensor maps. The layout of the 128 bytes is ours alone.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/emulator/diagnostics.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint64_t kMagic = 0x70616d6520656c69ull;
constexpr uint64_t kMaxDim = 1ull << 32;
constexpr uint64_t kMaxStride = 1ull << 40;
constexpr uint32_t kMaxBox = 256;
constexpr uint32_t kMaxElementStride = 8;
constexpr uint64_t kLastElement = static_cast<uint64_t>(Element::kE5m2);
// Of `Encoded::small`, which has a byte each: element, rank, swizzle, fill, interleave, atomicity.
constexpr uint32_t kFillShift = 24, kInterleaveShift = 32, kAtomicityShift = 40;
constexpr uint64_t kPacked = 1ull << 48;  // two elements of four bits in each byte
constexpr uint64_t kNoElement = 0x80;     // and the number that `tensormap.replace` gave
constexpr uint64_t kNoSwizzle = 0xff;     // one that there is not

struct Encoded {
  uint64_t magic;
  uint64_t checksum;
  uint64_t base;
  uint64_t strides[4];
  uint64_t small;             // element, rank, swizzle, fill: one byte each
  uint32_t dims_less_one[5];  // an extent may be 2^32
  uint16_t box[5];
  uint8_t element_strides[5];
  uint8_t pad[17];
};
static_assert(sizeof(Encoded) == 120 && sizeof(Encoded) <= sizeof(TensorMap::bytes));

// Programs edit NVIDIA's layout, too: CUTLASS clears bit 21 of the second word of maps of small
// tensors when the driver is older than 13.2. That bit means nothing here.
constexpr uint64_t kTheirs = 1ull << 21;

// FNV-1a over everything but the checksum itself.
uint64_t Checksum(Encoded e) {
  e.checksum = 0;
  uint8_t bytes[sizeof(Encoded)];
  std::memcpy(bytes, &e, sizeof e);
  uint64_t h = 0xcbf29ce484222325ull;
  for (uint8_t b : bytes) h = (h ^ b) * 0x100000001b3ull;
  return h & ~kTheirs;
}
bool MadeHere(const Encoded& e) {
  return e.magic == kMagic && (e.checksum & ~kTheirs) == Checksum(e);
}

class Encoder {
 public:
  Encoder(const TensorMapDesc& desc, DiagSink& diags) : desc_(desc), diags_(diags) {}

  Result<TensorMap> Run() {
    if (desc_.dtype == "u4") return Packed();
    const std::optional<Element> element = ElementFromName(desc_.dtype);
    if (!element) {
      return Broken(fmt::format("the element type `{}` is not known", desc_.dtype))
          .Help(
              "types are u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, f32, tf32, f64, e4m3 "
              "and e5m2");
    }
    element_ = *element;
    size_ = ElementBytes(element_);
    const size_t rank = desc_.dims.size();
    if (rank < 1 || rank > 5) {
      return Broken(fmt::format("the rank is {}", rank)).Help("a tensor map has 1 to 5 dimensions");
    }
    const bool lengths_ok = CheckLength("strides", desc_.strides_bytes.size(), rank - 1) &
                            CheckLength("box extents", desc_.box.size(), rank) &
                            (desc_.element_strides.empty() ||
                             CheckLength("element strides", desc_.element_strides.size(), rank));
    if (!lengths_ok) return DiagSink::Propagate();
    CheckGlobal();
    CheckBox();
    if (failed_) return DiagSink::Propagate();
    CheckEnd();
    if (failed_) return DiagSink::Propagate();
    return Encode();
  }

 private:
  // Elements of four bits are bytes of half the extent (16U4_ALIGN8B).
  Result<TensorMap> Packed() {
    TensorMapDesc bytes = desc_;
    bytes.dtype = "u8";
    if (bytes.dims.empty() || bytes.box.empty() || bytes.dims[0] % 2 != 0 || bytes.box[0] % 2 != 0)
      return Broken("elements of four bits, and not two in each byte of a row")
          .Help("make the innermost extents even");
    bytes.dims[0] /= 2;
    bytes.box[0] /= 2;
    Encoder encoder(bytes, diags_);
    encoder.packed_ = kPacked;
    return encoder.Run();
  }

  DiagBuilder Broken(std::string what) {
    failed_ = true;
    return diags_.Report(kBadTensorMap, Span(), std::move(what)).Place("tensor map");
  }

  bool CheckLength(const char* what, size_t have, size_t want) {
    if (have == want) return true;
    Broken(fmt::format("{} {} for rank {}", have, what, desc_.dims.size()))
        .Help(fmt::format("give {}", want));
    return false;
  }

  void CheckGlobal() {
    if (desc_.base % 16 != 0) {
      Broken(fmt::format("the base address {:#x} is not aligned to 16 bytes", desc_.base));
    }
    for (size_t i = 0; i < desc_.dims.size(); i++) {
      if (desc_.dims[i] < 1 || desc_.dims[i] > kMaxDim) {
        Broken(fmt::format("dimension {} has {} elements", i, desc_.dims[i]))
            .Help("dimensions count innermost first and have 1 to 2^32 elements");
      }
    }
    for (size_t i = 0; i < desc_.strides_bytes.size(); i++) {
      const uint64_t stride = desc_.strides_bytes[i];
      if (stride % 16 != 0) {
        Broken(fmt::format("the stride of dimension {} is {} bytes", i + 1, stride))
            .Help(fmt::format("strides are multiples of 16 bytes: pad rows to a multiple of {} "
                              "elements",
                              16 / std::min(size_, 16u)));
      }
      if (stride >= kMaxStride) {
        Broken(fmt::format("the stride of dimension {} is {} bytes", i + 1, stride))
            .Help("strides are below 2^40 bytes");
      }
    }
    if (desc_.fill_nan && (!IsFloat(element_) || size_ == 1)) {
      Broken(fmt::format("NaN fill of {} elements", ElementName(element_)))
          .Help("outside elements of integer and 8-bit tensors are zero");
    }
  }

  void CheckBox() {
    for (size_t i = 0; i < desc_.box.size(); i++) {
      if (desc_.box[i] < 1 || desc_.box[i] > kMaxBox) {
        Broken(fmt::format("the box has {} elements in dimension {}", desc_.box[i], i))
            .Help("a box has 1 to 256 elements in each dimension");
      }
    }
    for (size_t i = 0; i < desc_.element_strides.size(); i++) {
      if (desc_.element_strides[i] < 1 || desc_.element_strides[i] > kMaxElementStride) {
        Broken(fmt::format("the element stride of dimension {} is {}", i, desc_.element_strides[i]))
            .Help("element strides are 1 to 8");
      }
    }
    const int span = desc_.swizzle_bytes;
    if (span != 0 && span != 32 && span != 64 && span != 128) {
      Broken(fmt::format("a swizzle of {} bytes", span))
          .Help("swizzles are 0, 32, 64 or 128 bytes");
      return;
    }
    if (desc_.swizzle_atom != 16 && (desc_.swizzle_atom != 32 || span != 128)) {
      Broken(fmt::format("a swizzle of {} bytes in atoms of {}", span, desc_.swizzle_atom))
          .Help("atoms have 16 bytes, those of a swizzle of 128 bytes may have 32");
    }
    const int l2 = desc_.l2_promotion_bytes;
    if (l2 != 0 && l2 != 64 && l2 != 128 && l2 != 256) {
      Broken(fmt::format("an L2 promotion of {} bytes", l2)).Help("it is 0, 64, 128 or 256 bytes");
    }
    const uint64_t inner = uint64_t{desc_.box[0]} * size_;
    if (inner % 16 != 0) {
      Broken(fmt::format("the box's innermost extent is {} × {} = {} bytes", desc_.box[0], size_,
                         inner))
          .Help("it must be a multiple of 16 bytes");
    } else if (span != 0 && inner > static_cast<uint64_t>(span)) {
      Broken(
          fmt::format("the box's innermost extent is {} bytes, the swizzle spans {}", inner, span))
          .Help(fmt::format("make the box {} elements wide and load several", span / size_));
    }
  }

  // The last byte of the tensor must have an address.
  void CheckEnd() {
    unsigned __int128 end = desc_.base;
    end += static_cast<unsigned __int128>(desc_.dims[0]) * size_;
    for (size_t i = 1; i < desc_.dims.size(); i++) {
      end += static_cast<unsigned __int128>(desc_.dims[i] - 1) * desc_.strides_bytes[i - 1];
    }
    if (end >> 64) Broken("the tensor's last element has no 64-bit address");
  }

  TensorMap Encode() const {
    Encoded e = {};
    e.magic = kMagic;
    e.base = desc_.base;
    const size_t rank = desc_.dims.size();
    e.small = static_cast<uint64_t>(element_) | rank << 8 |
              static_cast<uint64_t>(desc_.swizzle_bytes) << 16 | uint64_t{desc_.fill_nan} << 24 |
              uint64_t{desc_.swizzle_atom == 32} << kAtomicityShift | packed_;
    for (size_t i = 0; i < 5; i++) {
      e.dims_less_one[i] = i < rank ? static_cast<uint32_t>(desc_.dims[i] - 1) : 0;
      e.box[i] = i < rank ? static_cast<uint16_t>(desc_.box[i]) : 1;
      // The hardware has no element stride in dimension 0.
      const bool strided = i > 0 && i < desc_.element_strides.size();
      e.element_strides[i] = strided ? static_cast<uint8_t>(desc_.element_strides[i]) : 1;
      if (i + 1 < rank) e.strides[i] = desc_.strides_bytes[i];
    }
    e.checksum = Checksum(e);
    TensorMap map;
    std::memcpy(map.bytes, &e, sizeof e);
    return map;
  }

  const TensorMapDesc& desc_;
  DiagSink& diags_;
  Element element_ = Element::kU8;
  uint32_t size_ = 1;
  uint64_t packed_ = 0;
  bool failed_ = false;
};

}  // namespace

uint64_t TensorMapInfo::box_bytes() const {
  uint64_t n = ElementBytes(element);
  for (int i = 0; i < 5; i++) n *= extent(i);
  return n;
}

Result<TensorMap> EncodeTensorMap(const TensorMapDesc& desc, DiagSink& diags) {
  return Encoder(desc, diags).Run();
}

namespace {

bool Says(std::string* why, std::string what) {
  if (why != nullptr) *why = std::move(what);
  return false;
}

// The rules of the encoder for fields that a program may have written: one broken rule is enough.
bool FieldsHold(const Encoded& e, std::string* why) {
  const uint64_t element = e.small & 0xff, rank = e.small >> 8 & 0xff, span = e.small >> 16 & 0xff;
  if ((e.small >> kInterleaveShift & 0xff) != 0)
    return Says(why, fmt::format("has interleave layout {}, which the emulator lacks",
                                 e.small >> kInterleaveShift & 0xff));
  const uint64_t atomicity = e.small >> kAtomicityShift & 0xff;
  if (atomicity > 1 || (atomicity == 1 && span != 128))
    return Says(why, fmt::format("has swizzle atomicity {}, which the emulator lacks", atomicity));
  constexpr uint64_t kLastReplaced = 15;  // of the ISA's list of element types
  if ((element & kNoElement) != 0 && (element & ~kNoElement) <= kLastReplaced)
    return Says(why,
                fmt::format("has element type {} of `tensormap.replace`, which the emulator lacks",
                            element & ~kNoElement));
  if (element > kLastElement)
    return Says(why, fmt::format("has element type {}, types are 0 to {}", element, kLastElement));
  if (rank < 1 || rank > 5) return Says(why, fmt::format("has rank {}, ranks are 1 to 5", rank));
  if (span != 0 && span != 32 && span != 64 && span != 128)
    return Says(why, fmt::format("has a swizzle of {} bytes, it is 0, 32, 64 or 128", span));
  if ((e.small >> 25 & 0x7f) != 0 || e.small >> 49 != 0)
    return Says(why, fmt::format("has reserved bits {:#x}", e.small >> 25));
  const auto type = static_cast<Element>(element);
  if ((e.small >> 24 & 1) != 0 && (!IsFloat(type) || ElementBytes(type) == 1))
    return Says(why, fmt::format("fills {} elements with NaN", ElementName(type)));
  if (e.base % 16 != 0)
    return Says(why, fmt::format("has base address {:#x}, which is not on 16 bytes", e.base));
  for (uint64_t i = 0; i < 5; i++) {
    const bool used = i < rank;
    if (e.box[i] < 1 || e.box[i] > (used ? kMaxBox : 1))
      return Says(why, fmt::format("has a box of {} elements in dimension {}, it may have 1 to {}",
                                   e.box[i], i, used ? kMaxBox : 1));
    const uint32_t most = used && i > 0 ? kMaxElementStride : 1;
    if (e.element_strides[i] < 1 || e.element_strides[i] > most)
      return Says(why, fmt::format("has element stride {} in dimension {}, it may be 1 to {}",
                                   e.element_strides[i], i, most));
    if (!used && e.dims_less_one[i] != 0)
      return Says(why, fmt::format("of rank {} has {} elements in dimension {}", rank,
                                   uint64_t{e.dims_less_one[i]} + 1, i));
    if (i > 0 && (e.strides[i - 1] % 16 != 0 || e.strides[i - 1] >= kMaxStride))
      return Says(why,
                  fmt::format("has a stride of {} bytes in dimension {}, strides are multiples "
                              "of 16 below 2^40",
                              e.strides[i - 1], i));
  }
  const uint64_t inner = uint64_t{e.box[0]} * ElementBytes(type);
  if (inner % 16 != 0 || (span != 0 && inner > span))
    return Says(why,
                fmt::format("has rows of {} bytes in its box and a swizzle of {}", inner, span));
  return true;
}

}  // namespace

bool DecodeTensorMap(const uint8_t* bytes, TensorMapInfo* info, std::string* why) {
  Encoded e;
  std::memcpy(&e, bytes, sizeof e);
  if (!MadeHere(e)) return Says(why, "is none: its 128 bytes were not made by this device");
  if (!FieldsHold(e, why)) return false;
  *info = {};
  info->element = static_cast<Element>(e.small & 0xff);
  info->rank = static_cast<uint32_t>(e.small >> 8 & 0xff);
  info->swizzle_bytes = static_cast<uint32_t>(e.small >> 16 & 0xff);
  info->swizzle_atom = (e.small >> kAtomicityShift & 0xff) == 1 ? 32 : 16;
  info->packed = (e.small & kPacked) != 0 ? 2 : 1;
  info->fill_nan = (e.small >> 24 & 1) != 0;
  info->base = e.base;
  info->strides[0] = ElementBytes(info->element);
  for (int i = 0; i < 5; i++) {
    info->dims[i] = uint64_t{e.dims_less_one[i]} + 1;
    info->box[i] = e.box[i];
    info->element_strides[i] = e.element_strides[i];
    if (i > 0) info->strides[i] = e.strides[i - 1];
  }
  return true;
}

bool ReplaceInTensorMap(uint8_t* bytes, MapField field, uint32_t ordinal, uint64_t value,
                        std::string* why) {
  Encoded e;
  std::memcpy(&e, bytes, sizeof e);
  if (std::all_of(bytes, bytes + sizeof(TensorMap::bytes), [](uint8_t b) { return b == 0; })) {
    e.magic = kMagic;
    e.small = 1 << 8;
    for (int i = 0; i < 5; i++) e.box[i] = 1, e.element_strides[i] = 1;
  } else if (!MadeHere(e)) {
    return Says(why, "is none: its 128 bytes were not made by this device");
  }
  const auto byte = [&](uint32_t shift, uint64_t v) {
    e.small = (e.small & ~(uint64_t{0xff} << shift)) | (v & 0xff) << shift;
  };
  switch (field) {
    case MapField::kGlobalAddress: e.base = value; break;
    case MapField::kRank:
      byte(8, std::min<uint64_t>(value, 0xfe) + 1);
      // Dimensions that are left are those of a map that never had them.
      for (uint64_t i = value + 1; value < 5 && i < 5; i++) {
        e.dims_less_one[i] = 0, e.box[i] = 1, e.element_strides[i] = 1;
        e.strides[i - 1] = 0;
      }
      break;
    case MapField::kBoxDim:
      e.box[ordinal] = static_cast<uint16_t>(std::min<uint64_t>(value, 0xffff));
      break;
    case MapField::kGlobalDim: e.dims_less_one[ordinal] = static_cast<uint32_t>(value - 1); break;
    case MapField::kGlobalStride: e.strides[ordinal] = value; break;
    case MapField::kElementStride:
      // The hardware has none in dimension 0.
      if (ordinal > 0)
        e.element_strides[ordinal] = static_cast<uint8_t>(std::min<uint64_t>(value, 0xff));
      break;
    case MapField::kElementType: {
      static constexpr Element kTypes[] = {Element::kU8,  Element::kU16,  Element::kU32,
                                           Element::kS32, Element::kU64,  Element::kS64,
                                           Element::kF16, Element::kF32,  Element::kF32,
                                           Element::kF64, Element::kBf16, Element::kTf32};
      constexpr uint64_t kF32Ftz = 8;
      const bool known = value < std::size(kTypes) && value != kF32Ftz;
      byte(0, known ? static_cast<uint64_t>(kTypes[value]) : kNoElement | value);
      break;
    }
    case MapField::kInterleave: byte(kInterleaveShift, value); break;
    case MapField::kSwizzle:
      byte(16, value == 0 ? 0 : value <= 3 ? uint64_t{16} << value : kNoSwizzle);
      break;
    case MapField::kSwizzleAtomicity: byte(kAtomicityShift, value); break;
    case MapField::kFill: byte(kFillShift, value); break;
  }
  e.checksum = Checksum(e);
  std::memcpy(bytes, &e, sizeof e);
  return true;
}

}  // namespace tilec::runtime::emulator
