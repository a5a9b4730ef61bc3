// SPDX-License-Identifier: Apache-2.0
#include "editor/protocol.h"

#include <gtest/gtest.h>

#include "editor/json.h"

namespace tilec::editor {
namespace {

TEST(Protocol, MessagesComeInPiecesOfAnySize) {
  const std::string stream = Frame("{\"a\":1}") + Frame("") + Frame("{\"b\":2}");
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.Add(std::string_view(stream).substr(at, piece));
      while (const auto message = reader.Next()) got.push_back(*message);
    }
    EXPECT_EQ(got, (std::vector<std::string>{"{\"a\":1}", "", "{\"b\":2}"})) << piece;
    EXPECT_EQ(reader.broken(), "");
  }
}

TEST(Protocol, OtherHeadersAndCasesAreTaken) {
  FrameReader reader;
  reader.Add("Content-Type: application/json\r\ncontent-LENGTH:  2 \r\n\r\n{}");
  EXPECT_EQ(reader.Next(), "{}");
}

TEST(Protocol, WhatIsNoFrameIsSaid) {
  for (const char* header :
       {"Content-Length: -1\r\n\r\n", "Content-Length: x\r\n\r\n", "Hello: 3\r\n\r\n",
        "Content-Length: 99999999999\r\n\r\n", "Content-Length: 99999999999999999999999\r\n\r\n"}) {
    FrameReader reader;
    reader.Add(header);
    EXPECT_EQ(reader.Next(), std::nullopt);
    EXPECT_NE(reader.broken(), "") << header;
  }
  FrameReader endless;
  endless.Add(std::string(5000, 'x'));
  EXPECT_EQ(endless.Next(), std::nullopt);
  EXPECT_NE(endless.broken(), "");
}

TEST(Protocol, PathsAndUris) {
  EXPECT_EQ(PathOf("file:///a%20b/%C3%A9.tile"), "/a b/\u00e9.tile");
  EXPECT_EQ(PathOf("untitled:Untitled-1"), "untitled:Untitled-1");
  EXPECT_EQ(PathOf("file:///50%"), "/50%");
  EXPECT_EQ(UriOf("/a b/\u00e9.tile"), "file:///a%20b/%C3%A9.tile");
  for (const char* path : {"/plain.tile", "/with space", "/%41", "/\u20ac"})
    EXPECT_EQ(PathOf(UriOf(path)), path);
}

}  // namespace
}  // namespace tilec::editor
