// The tree-sitter grammar of .tile files. It follows language/grammar.yy rule by rule, less what
// finds mistakes; newlines are spaces here, as a statement begins with a name or a keyword.
//
//   tree-sitter generate && tree-sitter test
//
// SPDX-License-Identifier: Apache-2.0

const comma = (rule) => seq(rule, repeat(seq(",", rule)));
const kLevels = { or: 1, and: 2, not: 3, compare: 4, range: 5, add: 6, product: 7, unary: 8, cast: 9, postfix: 10 };

module.exports = grammar({
  name: "tile",
  extras: ($) => [/\s/, ";", $.comment],
  word: ($) => $.identifier,
  conflicts: ($) => [[$._name, $.call], [$.block, $.set], [$.if_statement, $.if_expression]],

  rules: {
    source_file: ($) => repeat($._item),

    // ---- Items
    _item: ($) => choice($.import, $.constant, $.kernel, $.instance, $.function, $.test),
    import: ($) => seq(repeat($.pins), "import", $.string),
    constant: ($) => seq(repeat($.pins), "const", field("name", $._name), optional(seq(":", $.type)), "=", $._expr),
    kernel: ($) => seq(repeat($.pins), "kernel", field("name", $._name), optional($.type_parameters), $.parameters,
      optional($.where), $.block),
    instance: ($) => seq(repeat($.pins), "kernel", field("name", $._name), "=", field("of", $._name), "<",
      comma($.binding), ">"),
    binding: ($) => seq(field("name", $._name), "=", field("value", $._name)),
    function: ($) => seq(repeat($.pins), "fn", field("name", $._name), optional($.type_parameters), $.parameters,
      optional(seq("->", choice($.type, seq("(", $.type, repeat1(seq(",", $.type)), ")")))), optional($.where), $.block),
    test: ($) => seq(repeat($.pins), "test", $.string, repeat($.identifier), "{", repeat($.case), "}"),
    case: ($) => seq(field("kernel", $._name), "(", optional($.arguments), ")", optional(seq("~", $._additive)),
      repeat($.identifier)),
    type_parameters: ($) => seq("<", comma($.type_parameter), ">"),
    type_parameter: ($) => seq(field("name", $._name), optional(choice(seq("in", "{", comma($.identifier), "}"),
      seq(":", "fn")))),
    parameters: ($) => seq("(", optional(seq(comma($.parameter), optional(","))), ")"),
    parameter: ($) => seq(field("name", $._name), ":", optional(choice("const", seq(optional("optional"), optional(choice("out", "inout"))))), $.type,
      optional(seq("=", $._expr))),
    where: ($) => prec.right(seq("where", comma($._expr))),
    type: ($) => prec.right(seq(field("dtype", $.identifier),
      optional(seq("[", comma($._expr), "]", optional(seq("strided", "(", $._name, ")")))))),

    // ---- Statements
    block: ($) => seq("{", repeat($._statement), "}"),
    _statement: ($) => seq(repeat($.pins), choice($.tune, $.let, $.assignment, $.return, $.break, $.where, $.parallel, $.for,
      $.while, $.if_statement, $._chain)),
    pins: ($) => seq("#[", comma($.pin), "]"),
    pin: ($) => seq(field("name", $._name), optional(seq("=", $._expr))),
    tune: ($) => seq("tune", field("name", $._name), "=", $._additive, optional(seq("in", choice($.set, $._steps)))),
    let: ($) => choice(
      seq(choice("let", "var"), field("name", $._name), optional(seq(":", $.type)), "=", $._expr),
      seq("let", $._name, ",", comma($._name), "=", $._expr)),
    assignment: ($) => seq($._chain, choice("=", "+=", "-=", "*=", "/="), $._expr),
    return: ($) => prec.right(seq("return", comma($._expr))),
    break: ($) => "break",
    parallel: ($) => seq("parallel", comma($.loop), $.block),
    for: ($) => seq("for", $.loop, $.block),
    while: ($) => seq("while", $._expr, $.block),
    loop: ($) => seq(field("name", $._name), "in", choice($._expr, $._steps)),
    if_statement: ($) => prec.right(seq("if", $._expr, $.block, repeat(seq("else", "if", $._expr, $.block)),
      optional(seq("else", $.block)))),

    // ---- Expressions, loose to tight
    _expr: ($) => choice($.or, $.and, $.not, $.comparison, $.membership, $.range, $._additive),
    or: ($) => prec.left(kLevels.or, seq($._expr, "or", $._expr)),
    and: ($) => prec.left(kLevels.and, seq($._expr, "and", $._expr)),
    not: ($) => prec(kLevels.not, seq("not", $._expr)),
    comparison: ($) => prec.left(kLevels.compare, seq($._expr, choice("==", "!=", "<", "<=", ">", ">="), $._expr)),
    membership: ($) => prec.left(kLevels.compare, seq($._expr, "in", choice($.set, $._steps))),
    range: ($) => prec.left(kLevels.range, seq($._additive, "..", $._additive)),
    _steps: ($) => seq($._additive, "..", $._additive, optional(seq("step", $._additive))),
    _additive: ($) => choice($.sum, $.product, $.negation, $.cast, $._postfix),
    sum: ($) => prec.left(kLevels.add, seq($._additive, choice("+", "-"), $._additive)),
    product: ($) => prec.left(kLevels.product, seq($._additive, choice("*", "/", "%", "@"), $._additive)),
    negation: ($) => prec(kLevels.unary, seq("-", $._additive)),
    cast: ($) => prec.left(kLevels.cast, seq($._additive, "as", field("dtype", $.identifier))),
    _postfix: ($) => choice($._chain, $._other),
    _chain: ($) => choice($._name, $.call, alias($._chain_index, $.index), alias($._chain_member, $.member)),
    call: ($) => prec(kLevels.postfix, seq(field("function", $._name), "(", optional($.arguments), ")")),
    _chain_index: ($) => prec(kLevels.postfix, seq($._chain, "[", $.indices, "]")),
    _chain_member: ($) => prec(kLevels.postfix, seq($._chain, ".", field("member", $._name))),
    _other: ($) => choice($._literal, $.parentheses, $.if_expression, $.index, $.member),
    index: ($) => prec(kLevels.postfix, seq($._other, "[", $.indices, "]")),
    member: ($) => prec(kLevels.postfix, seq($._other, ".", field("member", $._name))),
    parentheses: ($) => seq("(", $._expr, ")"),
    if_expression: ($) => seq("if", $._expr, $.arm, repeat(seq("else", "if", $._expr, $.arm)), "else", $.arm),
    arm: ($) => seq("{", $._expr, "}"),
    arguments: ($) => seq(comma($.argument), optional(",")),
    argument: ($) => choice($._expr, seq(field("name", $._name), "=", $._expr)),
    indices: ($) => seq(comma(choice($._expr, $._steps, ":", "None")),
      optional(choice(",", seq(";", $._name, "=", $._expr)))),
    set: ($) => seq("{", comma($._expr), "}"),

    // ---- Tokens. `out`, `inout`, `step`, `strided`, `test` and `optional` are names elsewhere.
    _name: ($) => choice($.identifier, alias(choice("out", "inout", "step", "strided", "test", "optional"), $.identifier)),
    _literal: ($) => choice($.integer, $.float, $.string, $.boolean),
    boolean: ($) => choice("true", "false"),
    identifier: ($) => /[A-Za-z_][A-Za-z0-9_]*/,
    float: ($) => /[0-9][0-9_]*(\.[0-9][0-9_]*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)/,
    integer: ($) => /0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*/,
    string: ($) => /"([^"\\\n]|\\.)*"/,
    comment: ($) => token(choice(/\/\/[^\n]*/, /\/\*([^*]|\*+[^*\/])*\*+\//)),
  },
});
