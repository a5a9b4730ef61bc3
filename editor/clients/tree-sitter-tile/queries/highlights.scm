; SPDX-License-Identifier: Apache-2.0
["import" "kernel" "fn" "const" "where" "tune" "let" "var" "parallel" "for" "while" "if" "else"
 "return" "break" "in" "or" "and" "not" "as" "out" "inout" "step" "strided" "test" "optional"] @keyword
["true" "false"] @boolean
"None" @constant.builtin

(comment) @comment
(string) @string
(integer) @number
(float) @number
(type dtype: (identifier) @type.builtin)
(cast dtype: (identifier) @type.builtin)
(pin name: (identifier) @attribute)
(kernel name: (identifier) @function)
(instance name: (identifier) @function)
(instance of: (identifier) @function)
(binding value: (identifier) @function)
(function name: (identifier) @function)
(constant name: (identifier) @constant)
(parameter name: (identifier) @variable.parameter)
(member member: (identifier) @property)
(call function: (identifier) @function.call)
((call function: (identifier) @function.builtin)
 (#any-of? @function.builtin
    "exp2" "exp" "log2" "log" "sqrt" "sqrt_rn" "rsqrt" "tanh" "sigmoid" "erf" "sin" "cos"
    "floor" "ceil" "round" "abs" "min" "max" "fma" "div_rn" "bit_and" "bit_or" "bit_xor"
    "bit_not" "shl" "shr" "sum" "prod" "any" "all" "argmax" "argmin" "cumsum" "cumprod"
    "cummax" "cummin" "select" "dot" "dot_scaled" "pack_e2m1" "low_e2m1"
    "high_e2m1" "bitcast" "zeros_like" "full_like" "cdiv" "tiles" "print"
    "assert" "static_assert" "atomic_add" "atomic_min" "atomic_max" "atomic_and" "atomic_or"
    "atomic_xor" "reversed" "iota" "reshape" "flip" "join" "split" "reduce" "scan" "given"
    "fetch_add" "fetch_min" "fetch_max" "zip" "fetch_and" "fetch_or" "fetch_xor"
    "unlikely"))

["=" "+=" "-=" "*=" "/=" "==" "!=" "<" "<=" ">" ">=" "+" "-" "*" "/" "%" "@" ".." "->" "~"] @operator
["(" ")" "[" "]" "{" "}" "#["] @punctuation.bracket
["," ":" ";" "."] @punctuation.delimiter
