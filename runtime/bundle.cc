// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/diagnostics.h"
#include "support/nearest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec::runtime {

namespace {

constexpr std::string_view kMagic = "tilecbdl";
constexpr uint32_t kVersion = 3;
constexpr size_t kHeaderBytes = 32;
constexpr uint32_t kMostBuilds = 1 << 16;
constexpr std::string_view kElf =
    "\x7f"
    "ELF";  // how a cubin begins

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff);
}

void PutText(std::string& out, const std::string& text) {
  Put<uint64_t>(out, text.size());
  out += text;
}

// Takes numbers and texts from the front of what is left.
struct Cursor {
  std::string_view rest;

  bool Take(uint64_t* value, size_t bytes) {
    if (rest.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i)
      *value |= static_cast<uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    rest.remove_prefix(bytes);
    return true;
  }
  bool TakeText(std::string_view* text) {
    uint64_t length = 0;
    if (!Take(&length, sizeof length) || length > rest.size()) return false;
    *text = rest.substr(0, length);
    rest.remove_prefix(length);
    return true;
  }
};

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// "D = 64, causal = 1"
std::string ValuesOf(const backend::KernelImage& image) {
  std::string out;
  for (const auto& [name, value] : image.statics)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value);
  return out.empty() ? "any values" : out;
}

// "M=64 N=4096\nM=512 N=4096\n"
std::string SizesText(const std::vector<Bindings>& sizes) {
  std::string out;
  for (const Bindings& point : sizes) {
    std::string line;
    for (const auto& [name, value] : point)
      line += fmt::format("{}{}={}", line.empty() ? "" : " ", name, value);
    out += line + "\n";
  }
  return out;
}

// Takes `text` up to the first `end` off its front; false if there is none.
bool TakeUntil(std::string_view* text, char end, std::string_view* part) {
  const size_t at = text->find(end);
  if (at == std::string_view::npos) return false;
  *part = text->substr(0, at);
  text->remove_prefix(at + 1);
  return true;
}

// The inverse; what it would not have written is refused.
bool ParseSizes(std::string_view text, std::vector<Bindings>* sizes) {
  const std::string whole(text);
  std::string_view line, word;
  while (!text.empty()) {
    if (!TakeUntil(&text, '\n', &line)) return false;
    Bindings point;
    while (!line.empty()) {
      if (!TakeUntil(&line, ' ', &word)) word = std::exchange(line, {});
      const size_t equals = word.find('=');
      if (equals == 0 || equals == std::string_view::npos) return false;
      int64_t value = 0;
      const char* end = word.data() + word.size();
      const auto parsed = std::from_chars(word.data() + equals + 1, end, value);
      if (parsed.ec != std::errc() || parsed.ptr != end) return false;
      point[std::string(word.substr(0, equals))] = value;
    }
    sizes->push_back(std::move(point));
  }
  return SizesText(*sizes) == whole;
}

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

// What is wrong with the build at the cursor; "" if nothing is.
std::string TakeBuild(Cursor& cursor, Build* build) {
  std::string_view image, ptx, lines, cubin, sizes;
  for (std::string_view* text : {&image, &ptx, &lines, &cubin, &sizes})
    if (!cursor.TakeText(text)) return "does not fit";
  std::string why;
  if (!backend::FromJson(std::string(image), &build->image, &why)) return why;
  if (!build->image.ptx.empty() || !build->image.lines.empty())
    return "its image has PTX or a source map of its own";
  build->image.ptx = std::string(ptx);
  if (!ParseLines(lines, &build->image.lines)) return "its source map ends in the middle of a line";
  if (!cubin.empty() && cubin.substr(0, kElf.size()) != kElf) return "its machine code is no cubin";
  build->cubin = std::string(cubin);
  if (!ParseSizes(sizes, &build->sizes)) return "its sizes are no list of NAME=VALUE";
  return "";
}

}  // namespace

std::string WriteBundle(const Bundle& bundle) {
  std::string body;
  PutText(body, bundle.compiler);
  for (const Build& build : bundle.builds) {
    backend::KernelImage rest = build.image;
    rest.ptx.clear();
    rest.lines.clear();
    PutText(body, backend::ToJson(rest));
    PutText(body, build.image.ptx);
    PutText(body, LinesBytes(build.image.lines));
    PutText(body, build.cubin);
    PutText(body, SizesText(build.sizes));
  }
  std::string out(kMagic);
  Put<uint32_t>(out, kVersion);
  Put<uint32_t>(out, static_cast<uint32_t>(bundle.builds.size()));
  Put<uint64_t>(out, kHeaderBytes + body.size());
  Put<uint64_t>(out, HashOf(body));
  return out + body;
}

Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags) {
  const auto damaged = [&](const std::string& why) {
    return diags.Report(kBundleDamaged, Span{}, name, why);
  };
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return damaged("it does not begin with `tilecbdl`").Help("`tilec bundle` writes bundles");
  Cursor cursor{bytes.substr(kMagic.size())};
  uint64_t version = 0, count = 0, size = 0, hash = 0;
  if (!cursor.Take(&version, 4) || !cursor.Take(&count, 4) || !cursor.Take(&size, 8) ||
      !cursor.Take(&hash, 8))
    return damaged(fmt::format("it ends after {} bytes, in its head", bytes.size()));
  if (version != kVersion)
    return diags.Report(kBundleVersion, Span{}, name, version, kVersion)
        .Help("build the bundle and the runtime with the same tilec");
  if (size != bytes.size())
    return damaged(fmt::format("it has {} bytes and says {}", bytes.size(), size));
  if (hash != HashOf(cursor.rest)) return damaged("its bytes are not those that were written");
  if (count > kMostBuilds) return damaged(fmt::format("it says it has {} builds", count));
  Bundle out;
  std::string_view text;
  if (!cursor.TakeText(&text)) return damaged("the compiler's version does not fit");
  out.compiler = std::string(text);
  for (uint64_t i = 0; i < count; ++i) {
    Build build;
    const std::string why = TakeBuild(cursor, &build);
    if (!why.empty()) return damaged(fmt::format("build {}: {}", i + 1, why));
    out.builds.push_back(std::move(build));
  }
  if (!cursor.rest.empty())
    return damaged(fmt::format("{} bytes follow its last build", cursor.rest.size()));
  return out;
}

std::vector<std::string> KernelsOf(const Bundle& bundle) {
  std::vector<std::string> out;
  for (const Build& build : bundle.builds)
    if (std::find(out.begin(), out.end(), build.image.name) == out.end())
      out.push_back(build.image.name);
  return out;
}

double Distance(const Build& build, const Bindings& call) {
  constexpr double kAbsent = 64;
  const auto log = [](int64_t v) {
    return std::log2(static_cast<double>(std::max<int64_t>(v, 1)));
  };
  double nearest = std::numeric_limits<double>::infinity();
  for (const Bindings& point : build.sizes) {
    double sum = 0;
    for (const auto& [name, value] : point) {
      const auto have = call.find(name);
      sum += have == call.end() ? kAbsent : std::fabs(log(have->second) - log(value));
    }
    nearest = std::min(nearest, sum);
  }
  return nearest;
}

namespace {

DiagBuilder NoSuchKernel(const Bundle& bundle, const std::string& kernel, DiagSink& diags) {
  DiagBuilder d = diags.Report(kNotInBundle, Span{}, kernel);
  const std::string near = NearestName(kernel, KernelsOf(bundle));
  if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
  return d;
}

// Dims and integers of a call that the image takes.
Bindings SizesOf(const backend::KernelImage& image, const LaunchArgs& args) {
  DiagSink quiet;
  const auto bound =
      BindArguments({image.name, &image.tensors, &image.scalars, &image.statics}, args, quiet);
  return bound.ok() ? *bound : Bindings();
}

}  // namespace

Result<size_t> ChooseBuild(const Bundle& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags) {
  std::vector<std::string> targets, reasons;
  std::optional<size_t> best;
  double distance = 0;
  for (size_t i = 0; i < bundle.builds.size(); ++i) {
    const Build& build = bundle.builds[i];
    const backend::KernelImage& image = build.image;
    if (image.name != kernel) continue;
    if (std::find(targets.begin(), targets.end(), image.target) == targets.end())
      targets.push_back(image.target);
    if (image.target != target) continue;
    const double away =
        build.sizes.empty() ? Distance(build, {}) : Distance(build, SizesOf(image, args));
    if (best && !(away < distance)) continue;  // planning is what costs
    DiagSink refused;
    if (!PlanLaunch(image, args, refused).ok()) {
      reasons.push_back(fmt::format("built for {}: {}", ValuesOf(image),
                                    refused.all().empty() ? "" : refused.all().front().message));
      continue;
    }
    best = i, distance = away;
  }
  if (best) return *best;
  if (targets.empty()) return NoSuchKernel(bundle, kernel, diags);
  if (reasons.empty())
    return diags.Report(kNoBuildForTarget, Span{}, kernel, target,
                        fmt::format("{}", fmt::join(targets, ", ")));
  DiagBuilder d = diags.Report(kNoBuildFits, Span{}, kernel, reasons.size());
  for (const std::string& reason : reasons) d.Note(reason);
  return d.Help("build the bundle with these values, or call it as it was built");
}

}  // namespace tilec::runtime
