// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tcgen05_descriptor.h"

#include <fmt/format.h>

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kAddressMask = 0x3ffff;  // descriptors address 18 bits of shared memory

bool Refuse(std::string* error, std::string why) {
  *error = std::move(why);
  return false;
}

// Of the kinds whose formats have 8, 6 or 4 bits; −1: no such code.
int Float8Code(uint32_t code) {
  switch (code) {
    case 0: return static_cast<int>(MmaFormat::kE4m3);
    case 1: return static_cast<int>(MmaFormat::kE5m2);
    case 3: return static_cast<int>(MmaFormat::kE2m3);
    case 4: return static_cast<int>(MmaFormat::kE3m2);
    case 5: return static_cast<int>(MmaFormat::kE2m1);
    default: return -1;
  }
}

int FormatOf(MmaKind kind, uint32_t code) {
  switch (kind) {
    case MmaKind::kF16:
      return code > 1 ? -1 : static_cast<int>(code == 0 ? MmaFormat::kF16 : MmaFormat::kBf16);
    case MmaKind::kTf32: return code == 2 ? static_cast<int>(MmaFormat::kTf32) : -1;
    case MmaKind::kF8f6f4:
    case MmaKind::kMxf8f6f4: return Float8Code(code);
    case MmaKind::kI8:
      return code > 1 ? -1 : static_cast<int>(code == 0 ? MmaFormat::kU8 : MmaFormat::kS8);
    case MmaKind::kMxf4:
    case MmaKind::kMxf4nvf4: return code == 1 ? static_cast<int>(MmaFormat::kE2m1) : -1;
  }
  return -1;
}

bool EightBits(MmaKind kind) {
  return kind == MmaKind::kF8f6f4 || kind == MmaKind::kMxf8f6f4 || kind == MmaKind::kI8;
}

bool DecodeFormats(MmaKind kind, uint32_t bits, MmaTask* t, std::string* error) {
  const bool f4 = kind == MmaKind::kMxf4 || kind == MmaKind::kMxf4nvf4;
  const uint32_t codes[2] = {bits >> 7 & 7, bits >> 10 & (f4 ? 3u : 7u)};
  MmaFormat* to[2] = {&t->a, &t->b};
  for (int k = 0; k < 2; ++k) {
    const int format = FormatOf(kind, codes[k]);
    if (format < 0)
      return Refuse(error, fmt::format("bits {}: kind::{} has no type {} for {}",
                                       k == 0 ? "9–7"
                                       : f4   ? "11–10"
                                              : "12–10",
                                       MmaKindName(kind), codes[k], k == 0 ? "A" : "B"));
    *to[k] = static_cast<MmaFormat>(format);
  }
  if (kind == MmaKind::kF16 && t->a != t->b)
    return Refuse(error, "kind::f16 multiplies f16 by f16 or bf16 by bf16, not one by the other");
  return true;
}

bool DecodeResult(MmaKind kind, uint32_t code, MmaTask* t, std::string* error) {
  const bool f16_fits =
      kind == MmaKind::kF8f6f4 || (kind == MmaKind::kF16 && t->a == MmaFormat::kF16);
  const bool fits = kind == MmaKind::kI8 ? code == 2 : code == 1 || (code == 0 && f16_fits);
  if (!fits)
    return Refuse(error, fmt::format("bits 5–4: kind::{} of {} has no result of type {}",
                                     MmaKindName(kind), MmaFormatName(t->a), code));
  t->d = code == 0 ? MmaResult::kF16 : code == 1 ? MmaResult::kF32 : MmaResult::kS32;
  return true;
}

bool Reserved(uint32_t bits, uint32_t mask, std::string* error) {
  if ((bits & mask) == 0) return true;
  return Refuse(error, fmt::format("reserved bits {:#x} are set", bits & mask));
}

// Table 39.
bool CheckShape(const MmaTask& t, std::string* error) {
  const MmaForm& f = t.form;
  const std::string what = fmt::format("kind::{}{} with cta_group::{}", MmaKindName(f.kind),
                                       f.ws ? " .ws" : "", f.group);
  bool m_ok = false;
  if (f.ws)
    m_ok = t.m == 32 || t.m == 64 || t.m == 128;
  else if (f.group == 2)
    m_ok = t.m == 128 || t.m == 256;
  else
    m_ok = t.m == 128 || (t.m == 64 && !IsScaled(f.kind));
  if (!m_ok) return Refuse(error, fmt::format("{} has no M of {}", what, t.m));
  uint32_t least = 8, step = 8;
  if (f.group == 2) least = step = f.kind == MmaKind::kI8 ? 32 : 16;
  bool n_ok = t.n >= least && t.n <= 256 && t.n % step == 0;
  if (f.ws) n_ok = t.n == 64 || t.n == 128 || t.n == 256;
  if (f.kind == MmaKind::kI8 && f.group == 1 && !f.ws && t.n > 32 && t.n % 16 != 0) n_ok = false;
  if (!n_ok) return Refuse(error, fmt::format("{} has no N of {}", what, t.n));
  const uint32_t wide = f.group == 2 ? 32 : 16;
  if (t.transpose_b && EightBits(f.kind) && !f.ws && t.n % wide != 0)
    return Refuse(error, fmt::format("a transposed B of 8 bits has an N that is a multiple of {}, "
                                     "not {}",
                                     wide, t.n));
  if (f.a_in_tensor && t.transpose_a)
    return Refuse(error, "A in tensor memory cannot be transposed (bit 15)");
  return true;
}

bool DecodePlain(uint32_t bits, MmaTask* t, std::string* error) {
  const MmaKind kind = t->form.kind;
  const bool i8 = kind == MmaKind::kI8;
  uint32_t reserved = 1u << 6 | 1u << 23 | 1u << 29 | 3u;
  if (!i8) reserved |= 1u << 3;
  if (i8) reserved |= 1u << 13 | 1u << 14;  // no negation
  if (!t->form.ws) reserved |= 3u << 30;
  if (!Reserved(bits, reserved, error)) return false;
  if (!DecodeFormats(kind, bits, t, error) || !DecodeResult(kind, bits >> 4 & 3, t, error))
    return false;
  t->saturate = i8 && (bits >> 3 & 1);
  t->m = (bits >> 24 & 31) << 4;
  return true;
}

bool DecodeScaled(uint32_t bits, MmaTask* t, std::string* error) {
  const MmaKind kind = t->form.kind;
  const bool f4 = kind != MmaKind::kMxf8f6f4;
  uint32_t reserved = 3u | 1u << 3 | 1u << 6 | 7u << 24;
  if (f4) reserved |= 1u << 12 | 1u << 15 | 1u << 16;
  if (!f4) reserved |= 1u << 31;
  if (!Reserved(bits, reserved, error)) return false;
  if (bits >> 31 & 1) return Refuse(error, "bit 31: K = 96 exists on sm_103a alone");
  if (!DecodeFormats(kind, bits, t, error)) return false;
  t->d = MmaResult::kF32;
  t->m = (bits >> 27 & 3) << 7;
  t->scale_ue4m3 = (bits >> 23 & 1) == 0;
  if (t->scale_ue4m3 && (kind != MmaKind::kMxf4nvf4 || t->form.scales != 4))
    return Refuse(error, fmt::format("bit 23: scales of kind::{} with {} a row are ue8m0",
                                     MmaKindName(kind), t->form.scales));
  t->scale_id_a = static_cast<uint8_t>(bits >> 29 & 3);
  t->scale_id_b = static_cast<uint8_t>(bits >> 4 & 3);
  const uint32_t step = t->form.scales == 1 ? 1 : t->form.scales == 2 ? 2 : 4;
  if (t->scale_id_a % step != 0 || t->scale_id_b % step != 0)
    return Refuse(error, fmt::format("scale ids {} and {}: {} scales a row lie at multiples of {}",
                                     t->scale_id_a, t->scale_id_b, t->form.scales, step));
  return true;
}

}  // namespace

std::string_view MmaKindName(MmaKind kind) {
  switch (kind) {
    case MmaKind::kF16: return "f16";
    case MmaKind::kTf32: return "tf32";
    case MmaKind::kF8f6f4: return "f8f6f4";
    case MmaKind::kI8: return "i8";
    case MmaKind::kMxf8f6f4: return "mxf8f6f4";
    case MmaKind::kMxf4: return "mxf4";
    case MmaKind::kMxf4nvf4: return "mxf4nvf4";
  }
  return "";
}

bool IsScaled(MmaKind kind) {
  return kind == MmaKind::kMxf8f6f4 || kind == MmaKind::kMxf4 || kind == MmaKind::kMxf4nvf4;
}

std::string_view MmaFormatName(MmaFormat format) {
  switch (format) {
    case MmaFormat::kF16: return "f16";
    case MmaFormat::kBf16: return "bf16";
    case MmaFormat::kTf32: return "tf32";
    case MmaFormat::kE4m3: return "e4m3";
    case MmaFormat::kE5m2: return "e5m2";
    case MmaFormat::kE2m3: return "e2m3";
    case MmaFormat::kE3m2: return "e3m2";
    case MmaFormat::kE2m1: return "e2m1";
    case MmaFormat::kU8: return "u8";
    case MmaFormat::kS8: return "s8";
  }
  return "";
}

uint32_t MmaTask::k() const {
  switch (form.kind) {
    case MmaKind::kF16: return 16;
    case MmaKind::kTf32: return 8;
    case MmaKind::kF8f6f4:
    case MmaKind::kI8:
    case MmaKind::kMxf8f6f4: return 32;
    case MmaKind::kMxf4:
    case MmaKind::kMxf4nvf4: return 64;
  }
  return 0;
}

bool DecodeMmaTask(const MmaForm& form, uint32_t bits, MmaTask* out, std::string* error) {
  MmaTask t;
  t.form = form;
  if (bits >> 2 & 1) return Refuse(error, "bit 2: a sparse A needs `tcgen05.mma.sp`");
  t.negate_a = bits >> 13 & 1, t.negate_b = bits >> 14 & 1;
  t.transpose_a = bits >> 15 & 1, t.transpose_b = bits >> 16 & 1;
  t.n = (bits >> 17 & 63) << 3;
  if (!(IsScaled(form.kind) ? DecodeScaled(bits, &t, error) : DecodePlain(bits, &t, error)))
    return false;
  if (!CheckShape(t, error)) return false;
  *out = t;
  return true;
}

uint32_t TensorDescriptor::span() const {
  switch (mode) {
    case 1:
    case 2: return 128;
    case 4: return 64;
    case 6: return 32;
    default: return 16;
  }
}

// The permutation works on the address, less the lines by which the pattern begins elsewhere.
uint32_t TensorDescriptor::Address(uint32_t offset) const {
  const uint32_t at = (start + offset) & kAddressMask;
  const uint32_t line = at - (base_offset << 7);
  switch (mode) {
    case 1: return at ^ ((line >> 7 & 3) << 5);
    case 2: return at ^ ((line >> 7 & 7) << 4);
    case 4: return at ^ ((line >> 7 & 3) << 4);
    case 6: return at ^ ((line >> 7 & 1) << 4);
    default: return at;
  }
}

uint32_t TensorDescriptor::KMajor(uint32_t r, uint32_t c) const {
  return r % 8 * span() + r / 8 * sbo + c * (mode == 0 ? lbo : 16);
}

// Atoms of 32 bytes repeat after four rows of K, the others after eight (table 55).
uint32_t TensorDescriptor::MnMajor(uint32_t c, uint32_t k) const {
  if (mode == 0) return c * sbo + k % 8 * 16 + k / 8 * lbo;
  const uint32_t chunks = span() / 16, rows = mode == 1 ? 4 : 8;
  return c % chunks * 16 + c / chunks * lbo + k % rows * span() + k / rows * sbo;
}

bool DecodeTensorDescriptor(uint64_t bits, TensorDescriptor* out, std::string* error) {
  constexpr uint64_t kReserved = 3ull << 14 | 3ull << 30;
  if (bits & kReserved)
    return Refuse(error, fmt::format("reserved bits {:#x} are set", bits & kReserved));
  if ((bits >> 46 & 7) != 1)
    return Refuse(error, fmt::format("bits 48–46 are {}, they must be 1 (a descriptor of wgmma has "
                                     "0 there)",
                                     bits >> 46 & 7));
  if (bits >> 53 & 0xff)
    return Refuse(error, fmt::format("bits 60–53 are {:#x}, they must be 0", bits >> 53 & 0xff));
  if (bits >> 52 & 1)
    return Refuse(error,
                  "bit 52: absolute addresses of the leading dimension exist on sm_103a "
                  "alone");
  TensorDescriptor d;
  d.mode = static_cast<uint8_t>(bits >> 61);
  if (d.mode == 3 || d.mode == 5 || d.mode == 7)
    return Refuse(error, fmt::format("bits 63–61: there is no swizzle {}", d.mode));
  d.start = static_cast<uint32_t>(bits & 0x3fff) << 4;
  d.lbo = static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4;
  d.sbo = static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4;
  d.base_offset = static_cast<uint32_t>(bits >> 49 & 7);
  if (d.base_offset != 0 && d.mode == 0)
    return Refuse(error,
                  fmt::format("base offset is {} although nothing is swizzled", d.base_offset));
  *out = d;
  return true;
}

bool SwizzleFits(const MmaTask& task, bool mn_major, const TensorDescriptor& d,
                 std::string* error) {
  const bool atoms_of_32 = d.mode == 1;
  if (!mn_major)
    return !atoms_of_32 || Refuse(error,
                                  "swizzle 1 (atoms of 32 bytes) exists for MN-major "
                                  "operands alone, and this one is K-major");
  if (task.form.kind == MmaKind::kTf32)
    return atoms_of_32 ||
           Refuse(error, fmt::format("a transposed operand of kind::tf32 has swizzle "
                                     "1 (atoms of 32 bytes), not {}",
                                     d.mode));
  return !atoms_of_32 ||
         Refuse(error, fmt::format("swizzle 1 (atoms of 32 bytes) is for transposed "
                                   "operands of kind::tf32, not kind::{}",
                                   MmaKindName(task.form.kind)));
}

}  // namespace tilec::runtime::emulator
