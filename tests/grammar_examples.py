"""Eight grammars of things that people let models write, each in both syntaxes, with texts that it derives and texts that it does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """ebnf, lark: the same language (where they differ in white space, the texts do not show it)."""

    ebnf: str
    lark: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]


JSON = Example(
    ebnf=r"""
root   ::= value
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
value  ::= object | array | string | number | ("true" | "false" | "null") ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= [ \t\n\r]*
""",
    lark=r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"([^"\\\x00-\x1f\x7f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/
%ignore /[ \t\n\r]+/
""",
    accepted=('{"a": [1, -2.5e3, "x\\u00e9\\n"], "b": {}}', "[]", "0", '"é"', "[[[[true]]], null]", '{"":{"":[]}} '),
    rejected=("", "{", "[1,]", '{"a"}', "01", "1 2", '"\n"', "[[]", "{1:2}", "tru", '"\\x"', "[1 2]"),
)

ARITHMETIC = Example(
    ebnf=r"""
root   ::= expr
expr   ::= expr "+" term | expr "-" term | term  # left recursion
term   ::= term "*" power | term "/" power | power
power  ::= unary "^" power | unary
unary  ::= "-" unary | atom
atom   ::= [0-9]+ ("." [0-9]+)? | [a-z] | "(" expr ")"
""",
    lark=r"""
start: sum
?sum: product | sum "+" product | sum "-" product
?product: power | product "*" power | product "/" power
?power: unary | unary "^" power
?unary: atom | "-" unary
?atom: NUMBER | "(" sum ")" | NAME
NUMBER: /[0-9]+(\.[0-9]+)?/
NAME: "a".."z"
""",
    accepted=("1", "1+2*x", "(1+2)*(3-4)/5", "--x^2^-3", "((((7))))", "1.5-2.25+3", "a+b-c*(d/e)"),
    rejected=("", "1+", "(1", "1)", "()", "1.", "xy", "1 + 2", "*1", "1+*2", "((1)"),
)

STATEMENTS = Example(
    ebnf=r"""
root   ::= stmt+
stmt   ::= name " = " expr ";\n" | "if " expr " { " stmt* "}\n" else? | "while " expr " { " stmt* "}\n" | "return " expr ";\n" | "pass;\n"
else   ::= "else { " stmt* "}\n"
expr   ::= expr " and " cmp | expr " or " cmp | cmp
cmp    ::= arith (("<" | ">" | "==" | "!=") arith)?
arith  ::= arith ("+" | "-" | "*") atom | atom
atom   ::= name | name "(" (expr (", " expr)*)? ")" | [0-9]+ | "not " atom | "(" expr ")" | "'" [^'\n\\]* "'"
name   ::= [a-zA-Z_] [a-zA-Z_0-9]*
""",
    lark=r"""
start: stmt+
stmt: NAME " = " expr ";\n" | "if " expr " { " stmt* "}\n" else_? | "while " expr " { " stmt* "}\n" | "return " expr ";\n" | "pass;\n"
else_: "else { " stmt* "}\n"
expr: expr " and " cmp | expr " or " cmp | cmp
cmp: arith (("<" | ">" | "==" | "!=") arith)?
arith: arith ("+" | "-" | "*") atom | atom
atom: NAME | NAME "(" _list{expr} ")" | /[0-9]+/ | "not " atom | "(" expr ")" | /'[^'\n\\]*'/
_list{x}: [x (", " x)*]
NAME: /[a-zA-Z_][a-zA-Z_0-9]*/
""",
    accepted=(
        "x = 1;\n",
        "if x<3 { y = f(x, 2); \n}\n".replace("; \n", ";\n"),
        "while not done { x = x+1;\nif x==3 { pass;\n}\nelse { return x;\n}\n}\n",
        "return f(g(), 'a b') and (not y or 3>2);\n",
        "iff = notx;\n",
    ),
    rejected=("", "x = 1\n", "x=1;\n", "if x { }", "else { }\n", "return ;\n", "f(;\n", "1x = 2;\n", "x = 'a\n';\n"),
)

SQL = Example(
    ebnf=r"""
root    ::= select ";"?
select  ::= "SELECT " ("DISTINCT ")? columns " FROM " source (" WHERE " cond)? (" GROUP BY " names)? (" ORDER BY " order ("," " "? order)*)? (" LIMIT " int)?
columns ::= "*" | column ("," " "? column)*
column  ::= value (" AS " ident)?
source  ::= table (" JOIN " table " ON " cond)*
table   ::= ident (" " ident)? | "(" select ")" " " ident
order   ::= name (" ASC" | " DESC")?
names   ::= name ("," " "? name)*
cond    ::= cond " AND " test | cond " OR " test | test
test    ::= value " "? ("=" | "<>" | "<=" | ">=" | "<" | ">") " "? value | value " IN (" (select | value ("," " "? value)*) ")" | value " IS " ("NOT ")? "NULL" | "NOT " test | "(" cond ")"
value   ::= name | int | "'" ([^'] | "''")* "'" | ident "(" ("*" | value ("," " "? value)*)? ")"
name    ::= ident ("." ident)?
ident   ::= [a-z_] [a-z_0-9]*
int     ::= "-"? [0-9]+
""",
    lark=r"""
start: select ";"?
select: "SELECT " "DISTINCT "? columns " FROM " source (" WHERE " cond)? (" GROUP BY " sep{name})? (" ORDER BY " sep{order})? (" LIMIT " INT)?
columns: "*" | sep{column}
column: value (" AS " IDENT)?
source: table (" JOIN " table " ON " cond)*
table: IDENT (" " IDENT)? | "(" select ")" " " IDENT
order: name (" ASC" | " DESC")?
cond: cond " AND " test | cond " OR " test | test
test: value " "? ("=" | "<>" | "<=" | ">=" | "<" | ">") " "? value | value " IN (" (select | sep{value}) ")" | value " IS " "NOT "? "NULL" | "NOT " test | "(" cond ")"
value: name | INT | STRING | IDENT "(" ("*" | sep{value})? ")"
name: IDENT ("." IDENT)?
sep{x}: x ("," " "? x)*
STRING: /'([^']|'')*'/
IDENT: /[a-z_][a-z_0-9]*/
INT: /-?[0-9]+/
""",
    accepted=(
        "SELECT * FROM t",
        "SELECT a, count(*) AS n FROM t x JOIN u ON x.id = u.id WHERE a<>'it''s' AND (b IS NOT NULL OR c IN (1,2)) GROUP BY a;",
        "SELECT DISTINCT a.b FROM (SELECT * FROM t WHERE a=1) s ORDER BY b DESC, c LIMIT 10",
        "SELECT f(g(x), 'é') FROM t WHERE x IN (SELECT y FROM u)",
    ),
    rejected=(
        "",
        "SELECT",
        "SELECT FROM t",
        "SELECT * FROM t WHERE",
        "SELECT * FROM (SELECT * FROM t)",
        "SELECT a b FROM t",
        "SELECT * FROM t LIMIT x",
        "SELECT 'a FROM t",
        "SELECT f(a FROM t",
    ),
)

PGN = Example(
    ebnf=r"""
root      ::= tag* "\n"? movetext result
tag       ::= "[" [A-Z] [A-Za-z]* " \"" [^"\n]* "\"]\n"
movetext  ::= (number " " move " " (variation | comment)* (move " " (variation | comment)*)?)*
number    ::= [1-9] [0-9]* "."
move      ::= ([NBRQK] [a-h]? [1-8]? "x"? square | [a-h] ("x" [a-h])? [1-8] ("=" [NBRQ])? | "O-O" ("-O")?) [+#]? [!?]*
square    ::= [a-h] [1-8]
variation ::= "(" number (" " move " " | ".. ") (move " ")? movetext ") "
comment   ::= "{" [^{}]* "} "
result    ::= "1-0" | "0-1" | "1/2-1/2" | "*"
""",
    lark=r"""
start: tag* "\n"? movetext result
tag: "[" /[A-Z][A-Za-z]*/ " \"" /[^"\n]/* "\"]\n"
movetext: (number " " move " " (variation | comment)* (move " " (variation | comment)*)?)*
number: /[1-9][0-9]*/ "."
move: (/[NBRQK][a-h]?[1-8]?x?[a-h][1-8]/ | /[a-h](x[a-h])?[1-8](=[NBRQ])?/ | "O-O" "-O"?) /[+#]/? /[!?]/*
variation: "(" number (" " move " " | ".. ") (move " ")? movetext ") "
comment: "{" /[^{}]/* "} "
result: "1-0" | "0-1" | "1/2-1/2" | "*"
""",
    accepted=(
        "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 1/2-1/2",
        '[Event "Casual"]\n[Site "?"]\n\n1. d4 {solid} Nf6 2. c4 (2. Nf3 e6 ) e6 *',
        "1. e4 e5 (1... c5 2. Nf3 (2. c3 d5 ) d6 ) 2. f4 exf4 3. Bc4 Qh4+ 4. Kf1 b5!? 0-1",
        "*",
        "1. O-O O-O-O 2. e8=Q# 1-0",
    ),
    rejected=(
        "",
        "1. e4",
        "e4 e5 *",
        "1. e9 *",
        "1. e4 e5 (2. d4 *",
        "1. Xf3 *",
        "1. e4 {x *",
        "[event]\n*",
        "0. e4 *",
    ),
)

LISP = Example(
    ebnf=r"""
root  ::= ws form+
form  ::= (atom | list | quote form) ws
quote ::= "'" | "`" | ",@" | ","
list  ::= "(" ws form* ("." sp form)? ")"
atom  ::= symbol | number | string | "#t" | "#f"
symbol ::= [a-zA-Z!$%&*/:<=>?^_~+-] [a-zA-Z0-9!$%&*/:<=>?^_~+-]*
number ::= "-"? [0-9]+ ("." [0-9]+)?
string ::= "\"" ([^"\\] | "\\" .)* "\""
ws    ::= (sp | ";" [^\n]* "\n")*
sp    ::= [ \n\t]
""",
    lark=r"""
start: ws form+
form: (atom | list | quote form) ws
quote: "'" | "`" | ",@" | ","
list: "(" ws form* ("." SP form)? ")"
atom: SYMBOL | NUMBER | STRING | "#t" | "#f"
SYMBOL: /[a-zA-Z!$%&*\/:<=>?^_~+\-][a-zA-Z0-9!$%&*\/:<=>?^_~+\-]*/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
STRING: /"([^"\\]|\\(.|\n))*"/
ws: (SP | /;[^\n]*\n/)*
SP: /[ \n\t]/
""",
    accepted=(
        "(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))",
        "'(a . b)",
        "`(x ,y ,@(z))",
        '"a\\"b" 12 -3.5 #t',
        "() ; comment\n(a)",
        "(((())))",
    ),
    rejected=("", "(", ")", "(a", "(a))", "( . a b)", '"a', "#x", "'", "(a .b", ";c"),
)

C_EXPRESSIONS = Example(
    ebnf=r"""
root    ::= comma
comma   ::= comma "," assign | assign
assign  ::= unary ("=" | "+=" | "-=" | "*=" | "<<=") assign | cond
cond    ::= lor ("?" comma ":" cond)?
lor     ::= lor "||" land | land
land    ::= land "&&" bor | bor
bor     ::= bor "|" xor | xor
xor     ::= xor "^" band | band
band    ::= band "&" eq | eq
eq      ::= eq ("==" | "!=") rel | rel
rel     ::= rel ("<" | ">" | "<=" | ">=") shift | shift
shift   ::= shift ("<<" | ">>") add | add
add     ::= add ("+" | "-") mul | mul
mul     ::= mul ("*" | "/" | "%") cast | cast
cast    ::= "(" type ")" cast | unary
unary   ::= postfix | ("++" | "--") unary | [&*+~!-] cast | "sizeof(" type ")"
postfix ::= primary | postfix "[" comma "]" | postfix "(" (assign ("," assign)*)? ")" | postfix ("." | "->") ident | postfix ("++" | "--")
primary ::= ident | const | "\"" [^"\\\n]* "\"" | "(" comma ")"
type    ::= ("int" | "char" | "unsigned int" | "struct " ident) "*"*
ident   ::= [a-zA-Z_] [a-zA-Z_0-9]*
const   ::= [0-9]+ [uUlL]* | "0x" [0-9a-fA-F]+ | [0-9]+ "." [0-9]* | "'" [^'\\\n] "'"
""",
    lark=r"""
start: comma
comma: comma "," assign | assign
assign: unary ("=" | "+=" | "-=" | "*=" | "<<=") assign | cond
cond: lor ("?" comma ":" cond)?
lor: lor "||" land | land
land: land "&&" bor | bor
bor: bor "|" xor | xor
xor: xor "^" band | band
band: band "&" eq | eq
eq: eq ("==" | "!=") rel | rel
rel: rel ("<" | ">" | "<=" | ">=") shift | shift
shift: shift ("<<" | ">>") add | add
add: add ("+" | "-") mul | mul
mul: mul ("*" | "/" | "%") cast | cast
cast: "(" type ")" cast | unary
unary: postfix | ("++" | "--") unary | /[&*+~!-]/ cast | "sizeof(" type ")"
postfix: primary | postfix "[" comma "]" | postfix "(" [assign ("," assign)*] ")" | postfix ("." | "->") IDENT | postfix ("++" | "--")
primary: IDENT | CONST | /"[^"\\\n]*"/ | "(" comma ")"
type: ("int" | "char" | "unsigned int" | "struct " IDENT) "*"*
IDENT: /[a-zA-Z_][a-zA-Z_0-9]*/
CONST: /[0-9]+[uUlL]*/ | /0x[0-9a-fA-F]+/ | /[0-9]+\.[0-9]*/ | /'[^'\\\n]'/
""",
    accepted=(
        "a=b+c*d",
        "x?y:z?1:2",
        "f(a,b)[3]->c++",
        "(int*)p+sizeof(char)",
        "!a&&-b||~c<<2",
        "*p++=(a,b)",
        "a+++b",
        "-(-x)",
    ),
    rejected=("", "a=", "a b", "f(a,", "a?b", "(a", "1=>2", "->x", "a..b", "sizeof(", "[1]"),
)

XML = Example(
    ebnf=r"""
root ::= html
html ::= "<html>" block* "</html>"
block ::= "<p>" inline* "</p>" | "<ul>" ("<li>" (inline | block)* "</li>")* "</ul>" | "<div" (" class=\"" [a-z -]* "\"")? ">" block* "</div>"
inline ::= text | "<b>" inline* "</b>" | "<i>" inline* "</i>" | "<br/>"
text ::= [^<>&]+ | "&" ("lt" | "gt" | "amp") ";"
""",
    lark=r"""
start: html
html: "<html>" block* "</html>"
block: "<p>" inline* "</p>" | "<ul>" ("<li>" (inline | block)* "</li>")* "</ul>" | "<div" (" class=\"" /[a-z -]/* "\"")? ">" block* "</div>"
inline: TEXT | "<b>" inline* "</b>" | "<i>" inline* "</i>" | "<br/>"
TEXT: /[^<>&]+/ | "&" ("lt" | "gt" | "amp") ";"
""",
    accepted=(
        "<html></html>",
        "<html><p>a <b>b<i>c</i></b> &amp; é<br/></p></html>",
        '<html><div class="a b"><ul><li>x<ul><li></li></ul></li></ul></div></html>',
    ),
    rejected=(
        "",
        "<html>",
        "<html><p></html>",
        "<html><b></b></html>",
        "<html><p><b></i></p></html>",
        "<html><p>&x;</p></html>",
    ),
)

EXAMPLES = {
    "json": JSON,
    "arithmetic": ARITHMETIC,
    "statements": STATEMENTS,
    "sql": SQL,
    "pgn": PGN,
    "lisp": LISP,
    "c": C_EXPRESSIONS,
    "xml": XML,
}
