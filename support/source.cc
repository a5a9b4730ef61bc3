// SPDX-License-Identifier: Apache-2.0
#include "support/source.h"

#include <algorithm>

namespace tilec {

int32_t SourceMap::Add(std::string path, std::string text) {
  File file{std::move(path), std::move(text), {0}};
  for (size_t i = 0; i < file.text.size(); ++i)
    if (file.text[i] == '\n') file.line_starts.push_back(static_cast<uint32_t>(i + 1));
  files_.push_back(std::move(file));
  return static_cast<int32_t>(files_.size()) - 1;
}

LineCol SourceMap::Locate(int32_t file, uint32_t offset) const {
  const File& f = files_[file];
  offset = std::min<uint32_t>(offset, static_cast<uint32_t>(f.text.size()));
  auto it = std::upper_bound(f.line_starts.begin(), f.line_starts.end(), offset);
  const size_t line = static_cast<size_t>(it - f.line_starts.begin());
  const uint32_t start = f.line_starts[line - 1];
  size_t stop = f.text.find('\n', start);
  if (stop == std::string::npos) stop = f.text.size();
  return {static_cast<int>(line), static_cast<int>(offset - start) + 1,
          std::string_view(f.text).substr(start, stop - start)};
}

std::string_view SourceMap::TextOf(Span span) const {
  if (!span.known()) return {};
  return std::string_view(files_[span.file].text).substr(span.begin, span.end - span.begin);
}

}  // namespace tilec
