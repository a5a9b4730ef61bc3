// A bundle: kernels built ahead of time, in one file that a host loads without a compiler.
//
// A kernel has several builds: for each target, for each set of values that were compiled in, and
// for tensors that are aligned (16 bytes, as allocators give) or not. A launch may take a build of
// its device's target whose values and facts its arguments meet. Of those it takes the one that was
// chosen for the nearest sizes; where none was chosen by sizes, or two are equally near, the first:
// order is the writer's, best first.
//
// The file, little-endian; a text is a length of 8 bytes and so many bytes:
//
//   bytes  0… 7   "tilecbdl"
//   bytes  8…11   version of the format, 5
//   bytes 12…15   number of builds
//   bytes 16…23   bytes of the file
//   bytes 24…31   bytes of the index
//   bytes 32…39   XXH3 (64 bits) of the index
//   the index     the compiler's version, a text, and of each build: its kernel and its target,
//                 texts; bytes of the build; XXH3 of these; how many lists of values follow (4
//                 bytes), the values that were compiled in, then the sizes for which its tiles were
//                 chosen, a list for each. A list: how many (4 bytes), and of each, by ascending
//                 names, the name (a text) and the value (8 bytes)
//   the builds    in the order of the index, one behind the other. Each has four texts: its image
//                 as JSON (backend/kernel_image.h) less what follows; its PTX; of each line of its
//                 source map the PTX line, line and column (4 bytes each), op and file (texts); its
//                 machine code (a cubin; no bytes: none). Behind them the machine code of each
//                 launch before (the PTX of these is in the JSON)
//
// A host reads the index, and of the builds those that it launches (runtime/bundle_file.h), so that
// opening a bundle costs the same whether it holds ten builds or a thousand of them.
//
// The hashes find damage; they are no signature: whoever may write a bundle may choose what runs on
// the GPU. Nothing in a file is trusted by the host: lengths are checked against the file, images
// by the reader of images, launches by what every launch is checked by.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel_image.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

struct Build {
  backend::KernelImage image;
  std::string cubin;  // of image.ptx, for image.target; "": the driver assembles
  // Dims and integer values of calls for which the builder chose this build's tiles. Empty: it was
  // not chosen by sizes.
  std::vector<Bindings> sizes;
  std::vector<std::string> cubins_before;  // machine code of each of image.before
};

struct Bundle {
  std::string compiler;  // its version, for people
  std::vector<Build> builds;
};

std::string WriteBundle(const Bundle& bundle);
// All of it, every build checked. `name` is what diagnostics call the bytes.
Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags);

}  // namespace tilec::runtime
