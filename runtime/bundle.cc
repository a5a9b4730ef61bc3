// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <fmt/format.h>

#include "runtime/bundle_bytes.h"
#include "runtime/bundle_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec::runtime {

namespace bundle_bytes {

namespace {

constexpr std::string_view kElf =
    "\x7f"
    "ELF";  // how a cubin begins

std::string LinesBytes(const std::vector<backend::SourceLine>& lines) {
  std::string out;
  for (const backend::SourceLine& l : lines) {
    for (const int number : {l.ptx_line, l.line, l.column}) Put(out, static_cast<uint32_t>(number));
    PutText(out, l.op);
    PutText(out, l.file);
  }
  return out;
}

// The inverse; false if the bytes end in the middle of a line.
bool ParseLines(std::string_view bytes, std::vector<backend::SourceLine>* lines) {
  Cursor cursor{bytes};
  while (!cursor.rest.empty()) {
    uint64_t numbers[3];
    std::string_view op, file;
    for (uint64_t& number : numbers)
      if (!cursor.Take(&number, 4)) return false;
    if (!cursor.TakeText(&op) || !cursor.TakeText(&file)) return false;
    const auto number = [&](int i) { return static_cast<int>(static_cast<uint32_t>(numbers[i])); };
    lines->push_back({number(0), std::string(file), number(1), number(2), std::string(op)});
  }
  return true;
}

bool IsCubin(std::string_view code) { return code.empty() || code.substr(0, kElf.size()) == kElf; }

}  // namespace

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string BuildBytes(const Build& build) {
  const backend::KernelImage& image = build.image;
  backend::KernelImage rest = image;
  rest.ptx.clear();
  rest.lines.clear();
  std::string out;
  PutText(out, backend::ToJson(rest));
  PutText(out, image.ptx);
  PutText(out, LinesBytes(image.lines));
  PutText(out, build.cubin);
  for (size_t i = 0; i < image.before.size(); ++i)
    PutText(out, i < build.cubins_before.size() ? build.cubins_before[i] : "");
  return out;
}

std::string ReadBuild(std::string_view bytes, Build* build) {
  backend::KernelImage* image = &build->image;
  Cursor cursor{bytes};
  std::string_view json, ptx, lines, code;
  for (std::string_view* text : {&json, &ptx, &lines, &code})
    if (!cursor.TakeText(text)) return "does not fit";
  std::string why;
  if (!backend::FromJson(std::string(json), image, &why)) return why;
  if (!image->ptx.empty() || !image->lines.empty())
    return "its image has PTX or a source map of its own";
  image->ptx = std::string(ptx);
  if (!ParseLines(lines, &image->lines)) return "its source map ends in the middle of a line";
  if (!IsCubin(code)) return "its machine code is no cubin";
  build->cubin = std::string(code);
  for (size_t i = 0; i < image->before.size(); ++i) {
    if (!cursor.TakeText(&code)) return "does not fit";
    if (!IsCubin(code)) return "the machine code of its first launch is no cubin";
    build->cubins_before.emplace_back(code);
  }
  if (!cursor.rest.empty()) return fmt::format("{} bytes too many", cursor.rest.size());
  return "";
}

}  // namespace bundle_bytes

namespace {

using namespace bundle_bytes;

void PutList(std::string& out, const Bindings& values) {
  Put(out, static_cast<uint32_t>(values.size()));
  for (const auto& [name, value] : values) {
    PutText(out, name);
    Put(out, value);
  }
}

}  // namespace

std::string WriteBundle(const Bundle& bundle) {
  std::string index, builds;
  PutText(index, bundle.compiler);
  for (const Build& build : bundle.builds) {
    const std::string bytes = BuildBytes(build);
    PutText(index, build.image.name);
    PutText(index, build.image.target);
    Put<uint64_t>(index, bytes.size());
    Put<uint64_t>(index, HashOf(bytes));
    Put(index, static_cast<uint32_t>(1 + build.sizes.size()));
    PutList(index, build.image.statics);
    for (const Bindings& point : build.sizes) PutList(index, point);
    builds += bytes;
  }
  std::string out(kMagic);
  Put<uint32_t>(out, kVersion);
  Put<uint32_t>(out, static_cast<uint32_t>(bundle.builds.size()));
  Put<uint64_t>(out, kHeaderBytes + index.size() + builds.size());
  Put<uint64_t>(out, index.size());
  Put<uint64_t>(out, HashOf(index));
  return out + index + builds;
}

Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags) {
  TRY(const std::unique_ptr<BundleFile> file, BundleFile::Open(ByteSource::In(bytes), name, diags));
  Bundle out;
  out.compiler = std::string(file->compiler());
  for (size_t i = 0; i < file->size(); ++i) {
    TRY(const Build* build, file->Get(i, diags));
    out.builds.push_back(*build);
  }
  return out;
}

}  // namespace tilec::runtime
