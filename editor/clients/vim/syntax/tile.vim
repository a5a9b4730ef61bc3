" Syntax of .tile files.
" SPDX-License-Identifier: Apache-2.0
if exists("b:current_syntax") | finish | endif
syn keyword tileKeyword import where tune let var parallel for while if else return in or and not as
syn keyword tileKeyword kernel fn const out inout step strided test
syn keyword tileConstant true false None inf nan
syn keyword tileType bool i8 i16 i32 i64 u8 u16 u32 u64 bf16 f16 f32 f64 tf32 e4m3 e5m2 e2m1x2 ue8m0 ue4m3
syn match tileNumber "\<\d[0-9_]*\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"
syn match tileNumber "\<0[xX][0-9a-fA-F_]\+\>"
syn match tileCall "\<\h\w*\ze("
syn region tileString start=+"+ skip=+\\.+ end=+"+ oneline
syn region tileAnnotation start="#\[" end="\]" oneline
syn match tileComment "//.*$"
syn region tileComment start="/\*" end="\*/"
hi def link tileKeyword Keyword
hi def link tileConstant Constant
hi def link tileType Type
hi def link tileNumber Number
hi def link tileCall Function
hi def link tileString String
hi def link tileAnnotation PreProc
hi def link tileComment Comment
let b:current_syntax = "tile"
