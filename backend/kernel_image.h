// KernelImage: everything the runtime must know to launch one compiled kernel, as plain data.
//
// The backend produces it, the runtime consumes it, neither includes the other: this header is the
// only file the runtime sees of the backend, and it needs no compiler. The text form (ToJson /
// FromJson in backend/kernel_image*.cc) is what the cache on disk stores.
//
// Units: bytes unless a name says otherwise. Expressions (support/expr.h) range over the kernel's
// dims, integer scalars and `T.stride<i>` (stride of dim i of tensor T in elements).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/expr.h"

namespace tilec::backend {

enum class Direction { kIn, kOut, kInOut };

// A tensor of the kernel's signature, as a caller passes it.
struct TensorArg {
  std::string name;
  std::string dtype;  // spelling of ir/dtypes.def: "bf16", "f32", "e4m3", …
  Direction direction = Direction::kIn;
  std::vector<Expr> dims;    // outermost first; a bare name binds that dim at launch
  bool strided_any = false;  // last dim need not be contiguous
};

// A scalar of the signature: dims are not listed here (they follow from the tensors).
struct ScalarArg {
  std::string name;
  std::string dtype;
};

// How the launcher builds one CUtensorMap. Dims and strides innermost first, as the driver wants.
struct TensorMapRecipe {
  std::string tensor;
  std::string dtype;                // element type of the map (may be a same-size stand-in)
  std::vector<Expr> dims;           // elements
  std::vector<Expr> strides_bytes;  // rank − 1 entries
  std::vector<int64_t> box;         // elements that a copy brings
  std::vector<int64_t> steps;       // every so many of the tensor's along each dim; empty: all
  int swizzle_bytes = 0;            // 0, 32, 64, 128
};

// One parameter of the PTX entry, in order.
struct EntryParam {
  enum class Kind { kTensorPointer, kTensorMap, kInt, kScalar };
  Kind kind = Kind::kInt;
  std::string name;   // tensor (kTensorPointer) or scalar (kScalar) of the signature
  int map = -1;       // index into tensor_maps (kTensorMap; 128 bytes, 64-byte aligned, by value)
  Expr value;         // kInt: evaluated at launch, passed as .b64
  std::string dtype;  // kScalar
};

// A fact that must hold for this image to be used; violated facts are launch errors that name it.
struct Fact {
  Expr condition;
  std::string text;  // as the author wrote it, or why the compiler needs it
};

// Tensor base addresses must be multiples of this for the image to apply.
struct AlignmentFact {
  std::string tensor;
  int base_bytes = 1;
};

// Line of the PTX text (1-based) → place in the .tile source of it and the lines behind it, up to
// the next entry; sorted by ptx_line. No file: from here on the place is not known.
struct SourceLine {
  int ptx_line = 0;
  std::string file;
  int line = 0;
  int column = 0;
  std::string op;  // warp IR op it came from
};

// For reports: what the warps are called, and the places in shared memory. `bytes` is the size of
// one of `slots`; places may overlap.
struct RoleRange {
  std::string name;
  int first_warp = 0, warps = 0;
};
struct SharedObject {
  std::string name;
  int64_t offset = 0, bytes = 0;
  int slots = 1;
};

struct KernelImage {
  std::string name;    // kernel in the .tile file
  std::string entry;   // entry symbol in the PTX
  std::string target;  // "sm_90a"
  std::string ptx;
  std::vector<TensorArg> tensors;
  // Tensors that no caller passes: the runtime has memory for them, and nothing is in it.
  std::vector<TensorArg> work;
  std::vector<ScalarArg> scalars;
  Bindings statics;  // dims, consts and tunes this image was specialised for
  // Dims that may be 2³¹ or more: no position along them is a number of 32 bits.
  std::vector<std::string> wide;
  std::vector<TensorMapRecipe> tensor_maps;
  std::vector<EntryParam> params;
  std::vector<Fact> facts;
  std::vector<AlignmentFact> alignment;
  Expr grid[3] = {Expr::Const(1), Expr::Const(1), Expr::Const(1)};
  int block = 128;  // threads per CTA
  int cluster[3] = {1, 1, 1};
  int64_t smem_bytes = 0;  // dynamic shared memory
  // It waits for the grid before it in its stream itself (griddepcontrol.wait) before it touches
  // memory, so it may be launched while that grid ends…
  bool dependent_launch = false;
  // …if it has fewer CTAs than the device has SMs, or whatever it has. A microsecond is
  // nothing to a grid of products that fills the machine; and a build that began such grids early
  // was seen at lower clocks under load (H200: 0.95 of cuBLAS; whether by this is not known).
  bool dependent_if_full = false;
  std::vector<SourceLine> lines;
  std::vector<RoleRange> roles;
  std::vector<SharedObject> shared;  // by offset
  // Launches in front of it, in their order, with the same arguments and the same `work`.
  std::vector<KernelImage> before;
};

std::string ToJson(const KernelImage& image);
// False if the text is damaged; `why` then says where.
bool FromJson(const std::string& text, KernelImage* image, std::string* why);

}  // namespace tilec::backend
