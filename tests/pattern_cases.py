"""Patterns with texts that they accept and reject: one table, run through every stage that can run it.

A Python case is checked against ``re`` itself before anything else, so a row can be trusted; an ECMA-262 case is a
statement about the standard (with the u flag, unanchored). ``why`` says what would go wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class PatternCase:
    pattern: str
    accept: tuple[str, ...]
    reject: tuple[str, ...]
    why: str
    flavor: str = "python"
    flags: int = 0
    in_re: bool = True  # Python's re knows this syntax too

    @property
    def id(self) -> str:
        return f"{self.flavor}:{self.pattern}"[:50].encode("unicode_escape").decode()


def _python(pattern, accept, reject, why, flags=0, in_re=True):
    return PatternCase(pattern, tuple(accept), tuple(reject), why, "python", int(flags), in_re)


def _ecma(pattern, accept, reject, why, flags=0):
    return PatternCase(pattern, tuple(accept), tuple(reject), why, "ecma", int(flags))


PYTHON_CASES = [
    # Structure
    _python("", [""], ["a"], "the empty pattern is the empty text"),
    _python("abc", ["abc"], ["", "ab", "abcd", "abd"], "a sequence"),
    _python("a|bc|", ["a", "bc", ""], ["b", "abc"], "an empty branch matches the empty text"),
    _python("(?:x|)y(?:|zz?)", ["y", "xy", "yz", "xyzz"], ["", "x", "xzz", "yzzz"], "empty branches first and last"),
    _python("|", [""], ["|"], "two empty branches"),
    _python("()", [""], ["("], "an empty group"),
    _python("(a)(?:b)(?P<c>c)", ["abc"], ["ab"], "plain, non-capturing and named groups"),
    _python("a(?#note)*b", ["b", "aab"], ["a"], "a comment stands between nothing"),
    _python("(?#a)(?i)b", ["B"], ["aB"], "flags may come after a comment"),
    _python("}]a", ["}]a"], ["a"], "closing brackets alone are literal"),
    _python("a{", ["a{"], ["a"], "a brace that is no repeat is literal"),
    _python("a{}", ["a{}"], ["a", ""], "so are empty braces"),
    _python("a{x}", ["a{x}"], ["a"], "and other text in braces"),
    _python("a{1", ["a{1"], ["a"], "and a brace that does not close"),
    _python("a{ 1}", ["a{ 1}"], ["a"], "and bounds with a space"),
    # Repeats
    _python("a*", ["", "a", "aaaa"], ["b", "ab"], "star"),
    _python("a+?b", ["ab", "aab"], ["b"], "lazy marks do not change the language"),
    _python("a??", ["", "a"], ["aa"], "lazy option"),
    _python("a{2}", ["aa"], ["a", "aaa"], "exactly"),
    _python("a{2,}?", ["aa", "aaaaa"], ["a"], "at least, lazily"),
    _python("a{,2}", ["", "a", "aa"], ["aaa"], "at most"),
    _python("a{,}", ["", "aaa"], ["b"], "no bounds at all"),
    _python("a{0}b", ["b"], ["ab"], "zero times"),
    _python("(?:a*)*", ["", "aaa"], ["b"], "a starred body that may be empty"),
    _python("(?:(?:ab??)*?c?)*d", ["d", "abcd", "aacabd", "ccd"], ["", "bd", "abc", "abbd"], "nested and lazy"),
    _python("(?:a+){2}", ["aa", "aaa"], ["a"], "a repeat of a repeat"),
    _python("(?:a?){2,3}", ["", "a", "aaa"], ["aaaa"], "a repeat of an option"),
    _python("(?:a{2}){2,3}", ["aaaa", "aaaaaa"], ["aa", "aaaaa"], "counts multiply"),
    _python("(?:)*a", ["a"], [""], "an empty group may be repeated"),
    _python("(?:^)*a", ["a"], ["aa"], "and so may an anchor in a group"),
    _python("x{007}", ["x" * 7], ["x" * 6], "leading zeros in a count"),
    # Escapes
    _python(r"\x41\u00e9\U0001F600", ["Aé😀"], ["x41"], "hex escapes of three lengths"),
    _python(r"\N{EM DASH}\N{LATIN SMALL LETTER A}", ["—a"], ["N"], "characters by name"),
    _python(r"\a\f\n\r\t\v\\", ["\a\f\n\r\t\v\\"], ["afnrtv\\"], "control characters"),
    _python(r"\0\07\012\377\100", ["\0\x07\nÿ@"], ["0"], "octal escapes"),
    _python(r"\08", ["\x008"], ["8"], "an octal escape ends before an 8"),
    _python(r"\0123", ["\n3"], ["S"], "… and after three digits"),
    _python(r"\.\*\[\]\(\)\{\}\|\^\$\?\+\-\/\ \_\'\@", [".*[](){}|^$?+-/ _'@"], ["a"], "escaped punctuation"),
    _python("\\é\\😀", ["é😀"], ["\\é"], "a backslash before a letter that is not ASCII"),
    _python("é漢😀", ["é漢😀"], ["é漢"], "characters of two, three and four bytes"),
    # Classes
    _python("[abc]", ["a", "c"], ["d", "ab", ""], "a class is one character"),
    _python("[a-cx-z]", ["b", "y"], ["d", "w", "-"], "ranges"),
    _python("[^a-c]", ["d", "\n", "😀"], ["a", "c", ""], "a negated class holds the newline too"),
    _python("[б-д]+[^а-я]", ["бд!", "вé", "г😀", "б\n"], ["ба", "аб!", "Б!", "б"], "two-byte letters"),
    _python("[😀-😏]{1,2}", ["😀", "😅😏"], ["😐", "🙀", ""], "four-byte range"),
    _python("[]a]", ["]", "a"], ["b"], "a bracket that comes first is literal"),
    _python("[^]a]", ["b", "^"], ["]", "a"], "also after ^"),
    _python("[a^]", ["a", "^"], ["b"], "^ is literal unless first"),
    _python("[-a]", ["-", "a"], ["b"], "a hyphen that comes first"),
    _python("[a-]", ["-", "a"], ["b"], "a hyphen that comes last"),
    _python("[a-c-e]", ["b", "-", "e"], ["d"], "a hyphen after a range"),
    _python("[+--]", ["+", ",", "-"], ["."], "a range that ends in a hyphen"),
    _python(r"[\d-]", ["5", "-"], ["d"], "a class escape, then a hyphen"),
    _python(r"[\w.\-]", ["a", ".", "-", "é", "_"], ["+", "\\"], "escapes in classes"),
    _python(r"[^\W\d_]", ["a", "é", "漢"], ["5", "_", "-"], "letters, the usual way"),
    _python(r"[\b]", ["\b"], ["b"], r"\b in a class is a backspace"),
    _python(r"[\x41-\x43\u4e00-\u9fa5]", ["B", "漢"], ["D", "a"], "ranges of escapes"),
    _python(r"[\1\12\0]", ["\x01", "\n", "\0"], ["1"], "digits in a class are octal"),
    _python(r"[\]\\\^]", ["]", "\\", "^"], ["a"], "escaped specials in a class"),
    _python("[[a]", ["[", "a"], ["b"], "nested sets are not: a literal bracket"),
    _python("[a&&b]", ["a", "&", "b"], ["c"], "set operations are not: literal characters"),
    _python("[a||b]", ["|"], ["c"], "set operations are not: literal characters"),
    _python(r"[^\ud800-\udfff]", ["a", "😀"], [""], "surrogates are in no text, so all but them is everything"),
    _python(r"[\ud7ff-\ue000]", ["\ud7ff", "\ue000"], ["a"], "a range across the surrogates"),
    _python("[\0-\U0010ffff]", ["\0", "😀", "\U0010ffff"], ["", "ab"], "everything"),
    # Class escapes and dot
    _python(r"\d", ["5", "٣", "৪"], ["²", "a", "Ⅷ"], "decimal digits of all scripts"),
    _python(r"\w+", ["aé漢_5", "²", "Ⅷ", "ªß"], ["-", "", " ", "̀"], "letters and numbers of all scripts"),
    _python(r"\s", [" ", "\x1c", "\x85", "\u2003", "\u3000"], ["\u200b", "\ufeff", "s"], "white space of all scripts"),
    _python(r"\D\W\S", ["a-x"], ["5-x", "aax", "a- "], "complements"),
    _python(r"\d\w\s", ["5a "], ["٣a ", "5é ", "5a\x1c"], "ASCII only", flags=re.A),
    _python(r"(?a)\d\w\s", ["5a "], ["٣a ", "5é ", "5a\u3000"], "ASCII only, by flag in the pattern"),
    _python(r"\w(?a:\w)\w", ["éaé"], ["ééé"], "ASCII only for a part"),
    _python(r"(?a)\w(?u:\w)", ["aé"], ["éa"], "Unicode again for a part"),
    _python(".", ["a", "\r", "\u2028", "😀"], ["\n", ""], "anything but a newline"),
    _python("(?s).", ["\n", "a"], [""], "anything"),
    _python("(?s:.).", ["\na"], ["a\n"], "anything, for a part"),
    _python("(?s).(?-s:.)", ["\na"], ["a\n"], "flag off for a part"),
    _python(r"\p{Lu}\p{Ll}+", ["Äb", "Ωmeg"], ["ab", "A"], "general categories", in_re=False),
    _python(r"\p{L}\P{L}", ["a5", "漢-"], ["aa", "55"], "a group of categories, and a complement", in_re=False),
    _python(r"[\p{Nd}\p{Sc}]+", ["5€٣$"], ["a"], "categories in a class", in_re=False),
    _python(r"[^\p{L}]\p{Letter}\p{gc=Uppercase_Letter}", ["5aB"], ["aaB", "5ab"], "long names", in_re=False),
    _python(r"\p{Cn}\p{Co}\p{Any}\p{ASCII}", ["\U000e0fff\ue000aa"], ["aaaa"], "unassigned, private use", in_re=False),
    _python(r"(?i)\p{Lu}", ["a", "A", "é"], ["5", "漢"], "case is ignored in categories too", in_re=False),
    # Flags
    _python("(?i)yes|no", ["YES", "yEs", "nO"], ["yesno", "ye"], "a leading flag covers every branch"),
    _python("a(?i:b)c", ["abc", "aBc"], ["Abc", "abC"], "case for a part"),
    _python("(?i)a(?-i:b)", ["Ab"], ["aB"], "flag off for a part"),
    _python("(?i:a(?-i:b)c)d", ["AbCd"], ["aBcd", "abcD"], "flags nest and end with their group"),
    _python("(?i:a|b)|c", ["A", "B", "c"], ["C"], "a scoped flag ends with its group"),
    _python("k", ["k", "K", "\u212a"], ["x"], "the Kelvin sign is a k", flags=re.I),
    _python("(?i)s", ["s", "S", "ſ"], ["ß"], "and long s an s"),
    _python("(?ia)[k-s]", ["K", "s"], ["\u212a", "ſ"], "unless case is ASCII's"),
    _python("(?i)[^k]", ["a", "S"], ["k", "K", "\u212a"], "a negated class excludes all cases"),
    _python("(?i)[α-γ]", ["Β", "ϐ", "γ"], ["δ"], "a range of Greek letters, and symbol beta"),
    _python("(?i)ß", ["ß", "ẞ"], ["ss", "SS"], "one character is never two"),
    _python("(?i)ﬅ", ["ﬆ", "ﬅ"], ["st"], "ligatures with the same upper case"),
    _python("(?i)İ", ["İ", "i", "I", "ı"], ["j"], "dotted and dotless i are all one to re"),
    _python("(?i)Σ", ["σ", "ς", "Σ"], ["s"], "three forms of sigma"),
    _python("(?i)\U00010400", ["\U00010428", "\U00010400"], ["a"], "case beyond the BMP"),
    _python("(?x) a b # c\n [ ] d", ["ab d"], ["ab", "a b d"], "verbose: filler is skipped, but not in a class"),
    _python("(?x) a # c", ["a"], ["ac"], "a comment up to the end"),
    _python("(?x) a \n + \\ b", ["aa b"], ["a"], "verbose: filler before a repeat, and an escaped blank"),
    _python("a(?x: b )c d", ["abc d"], ["abcd"], "verbose for a part"),
    _python("(?x)a(?-x: b)", ["a b"], ["ab"], "verbose off for a part"),
    _python("(?x)a\\#b", ["a#b"], ["a"], "an escaped hash"),
    _python("a#b", ["a#b"], ["a"], "a hash is literal unless verbose"),
    _python("(?im-s:^A.)", ["aB"], ["a\n"], "several flags at once"),
    _python("(?i)(?m)^a$", ["A"], ["A\n"], "flags one after the other"),
    # Anchors
    _python("^abc$", ["abc"], ["abc\n", "ab"], "anchors at the ends cost nothing"),
    _python("a^b|a$b", [], ["ab", "a"], "anchors in the middle match nothing"),
    _python("(?:^|,)a", ["a", ",a"], ["aa"], "an anchor as an alternative"),
    _python("(?:a|^b)*", ["b", "aa", "ba"], ["ab", "bb"], "an anchor in a loop"),
    _python("a$\n", ["a\n"], ["a"], "$ holds before a newline that ends the text"),
    _python("a$\n\n", [], ["a\n\n", "a\n"], "but not before two"),
    _python("a$(?s:.)*", ["a", "a\n"], ["ab", "a\n\n", "a\nb"], "also when something may follow"),
    _python(r"a\Z\n?", ["a"], ["a\n"], r"\Z is the very end"),
    _python(r"\Aa|b\Aa", ["a"], ["ba"], r"\A is the very start"),
    _python("(?m)a$\n^b", ["a\nb"], ["a\n", "ab"], "lines"),
    _python("(?m)(?:^a$\n?)*", ["", "a", "a\na\n", "a\na"], ["aa", "a\n\na"], "lines in a loop"),
    _python("(?m)\r^a", [], ["\ra"], "a carriage return ends no line"),
    _python(r"(?m)a\Z", ["a"], ["a\n"], r"\Z does not care about lines"),
    _python("a(?:$|x)(?:\n|y)?", ["a", "a\n", "axy", "ax"], ["ay"], "$ as an alternative"),
    # Word boundaries
    _python(r"\bab\b", ["ab"], [" ab"], "at the ends"),
    _python(r"\b\w+\b \b\w+\b", ["ab cd", "é 漢"], ["ab  cd", " "], "between words"),
    _python(r"a\bb|a\B-", [], ["ab", "a-"], "where they cannot be"),
    _python(r"a\Bb|a\b-", ["ab", "a-"], [], "where they must be"),
    _python(r"[a-]\b[b+]", ["a+", "-b"], ["ab", "-+"], "where it depends"),
    _python(r"[a-]\B[b+]", ["ab", "-+"], ["a+", "-b"], "where it depends, negated"),
    _python(r"\B", [], [""], r"\B does not match the empty text (Python up to 3.13)"),
    _python(r"\B-?\B", ["-"], [""], r"and \B holds beside a lone hyphen"),
    _python(r"\b", [], [""], r"nor does \b"),
    _python(r"(?a)a\bé|é\bé", ["aé"], ["éé"], "word characters of ASCII"),
    _python(r"(?:\ba|b)*", ["a", "b", "ab", "bb", "abb"], ["aa", "ba"], "a boundary in a loop"),
    # Looks
    _python("(?!ab)[a-c]{2}", ["ac", "ba", "cc"], ["ab", "a", "abc"], "negative look-ahead"),
    _python("(?=[a-c]*c)[ab]*.", ["abc", "c"], ["ab"], "positive look-ahead"),
    _python("a(?=b)", [], ["a", "ab"], "nothing can follow the whole text"),
    _python("a(?!b)", ["a"], ["ab"], "and nothing does"),
    _python("(?=.*[0-9])(?=.*[a-z]).{3,4}", ["a1-", "12ab"], ["abc", "a1", "123"], "several conditions"),
    _python("(?!.*aa)[ab]*", ["abab", ""], ["baab"], "no two a's"),
    _python("[ab]+(?<=b)c", ["abc", "bc"], ["ac"], "look-behind"),
    _python("[ab]+(?<!b)c", ["ac", "bac"], ["bc", "c"], "negative look-behind"),
    _python("(?<=a)b", [], ["b", "ab"], "nothing stands before the text"),
    _python("(?<!a)b", ["b"], ["ab"], "and so nothing forbidden"),
    _python("ab(?<=ab)c", ["abc"], ["bc"], "look-behind over two characters"),
    _python("[abc]*(?<=b+)c", ["abc", "bbc"], ["ac", "c"], "look-behind of any width, which re refuses", in_re=False),
    _python("(?:a(?=b)|b)*", ["", "abab", "b"], ["a", "aab"], "a look in a loop"),
    _python("(?:(?!--).)*", ["a-b", "-"], ["a--b"], "the tempered dot"),
    _python("(?=(?!ab)a)..", ["ac"], ["ab", "bc"], "a look in a look"),
    _python("(?=(?<=a)b)b|a(?=(?<=a)b)b", ["ab"], ["b"], "a look-behind in a look-ahead"),
    _python("(?!)", [], ["", "a"], "never"),
    _python("(?=)a", ["a"], [""], "always"),
    _python("(?!a)*b(?=c)?", ["b"], [""], "looks repeated zero times"),
    _python("(?=a$)a\n?", ["a", "a\n"], ["a\n\n"], "an anchor in a look"),
    _python("(?<=^a)b|a(?<=^a)b", ["ab"], ["b"], "an anchor in a look-behind"),
    _python("(?i)(?=A)a", ["a", "A"], ["b"], "flags reach into looks"),
    _python("[ab]*?(?=(a|b)c)[ac]*", ["ac", "bac"], ["bc"], "a look in the middle"),
]

ECMA_CASES = [
    # Search
    _ecma("", ["", "a"], [], "the empty pattern is found everywhere"),
    _ecma("a", ["a", "bab", "a\n"], ["", "b"], "found anywhere"),
    _ecma("^a", ["a", "ab"], ["ba", "\na"], "found at the start"),
    _ecma("a$", ["a", "ba"], ["ab", "a\n"], "found at the very end, with no newline after it"),
    _ecma("^a$", ["a"], ["a\n", "aa", ""], "the whole text"),
    _ecma("^(a|b)$", ["a", "b"], ["ab"], "anchors around a group"),
    _ecma("^a$|^b$", ["a", "b"], ["ab"], "anchors in every branch"),
    _ecma("^a|b$", ["ax", "xb", "a", "b"], ["xa", "bx"], "one anchor in each branch"),
    _ecma("(^a|b)c", ["ac", "xbc", "bcx"], ["xac"], "an anchor in one branch of a group"),
    _ecma("a(b|c$)", ["xabx", "xac"], ["acx"], "an anchor in one branch at the end"),
    _ecma("(^|,)a(,|$)", ["a", "x,a,y", "a,", "x,a"], ["xa", "ax"], "the usual list idiom"),
    _ecma("(^|x)(a|$)", ["", "a", "xa", "bx"], ["b", "ba"], "both ends optional"),
    _ecma("^(?!^no)a*$", ["aa", ""], ["no", "b"], "an anchor in a look at the start"),
    _ecma("(?!x)^a", ["a"], ["xa", "ba"], "a look before the anchor"),
    _ecma("a(?=b)$", [], ["a", "ab"], "contradiction"),
    _ecma("a(?!b)", ["ac", "a", "aba"], ["ab", "b"], "a look at what follows the match"),
    _ecma("(?<!b)a", ["a", "ca", "baa"], ["ba", "b"], "a look at what stands before it"),
    _ecma("^.*$", ["", "abc"], ["\n", "a\nb", "a\u2028"], "a whole line"),
    _ecma("^$", [""], ["a", "\n"], "the empty text only"),
    _ecma("$^", [""], ["a"], "in either order"),
    _ecma("^((?!mode)(?!Mode).)*$", ["abc", "mod"], ["a mode", "Mode"], "a real schema's exclusion"),
    _ecma(r"^(?:\S+\s+){0,2}\S+$", ["a", "a b c"], ["", "a b c d", " "], "a real schema's count of words"),
    # Dot, classes, class escapes
    _ecma("^.$", ["a", "😀", "\x85"], ["\n", "\r", "\u2028", "\u2029", ""], "four line ends"),
    _ecma("^.$", ["\n", "\u2028"], [""], "dot matches all with s", flags=re.S),
    _ecma(r"^\d$", ["5"], ["٣"], "digits are ASCII"),
    _ecma(r"^\w$", ["a", "_", "5"], ["é", "-"], "word characters are ASCII"),
    _ecma(r"^\W$", ["é", "-"], ["a"], "and so the rest is not"),
    _ecma(r"^\s$", [" ", "\ufeff", "\u2028", "\u3000", "\xa0"], ["\x1c", "\x85", "\u200b"], "ECMA white space"),
    _ecma("^[]$", [], ["", "]"], "the empty class"),
    _ecma("^[^]$", ["\n", "a", "]"], [""], "its complement"),
    _ecma(r"^[\]]$", ["]"], ["\\"], "an escaped bracket"),
    _ecma(r"^[\w-.]$", ["a", "-", "."], ["+"], "a hyphen after a class escape, as browsers without u read it"),
    _ecma(r"^[a-\d]$", ["a", "-", "5"], ["b", "+"], "and before one"),
    _ecma("^[a-zA-Z0-9-_.]$", ["-", "_", ".", "x"], ["+"], "a hyphen after a range"),
    _ecma(r"^[\b\-\/]$", ["\b", "-", "/"], ["b", "\\"], "escapes in classes"),
    _ecma(r"^\p{Lu}\p{Letter}\p{gc=Nd}\P{L}$", ["Äß٣-"], ["aß5-"], "general categories"),
    _ecma(r"^\p{digit}+$", ["42", "৪২"], ["-"], "the category Nd by its alias"),
    # Escapes
    _ecma(r"^\cJ\t\v\0\x41\u00e9$", ["\n\t\v\0Aé"], ["cJ"], "control, hex and null"),
    _ecma(r"^\u{1F600}\uD83D\uDE00[\u{1F600}-\u{1F602}]$", ["😀😀😁"], ["😀😀a"], "code points and surrogate pairs"),
    _ecma(r"^[\uD83D\uDE00-\uD83D\uDE02]$", ["😁"], ["a"], "a range of surrogate pairs"),
    _ecma(r"^\/\-\_\'\@\:\,\#\ $", ["/-_'@:,# "], ["\\/"], "needless backslashes, which schemas are full of"),
    _ecma(r"^a{$|^}]$|^a{b}$", ["a{", "}]", "a{b}"], ["a"], "brackets that are no syntax are literal"),
    _ecma("^a{2}b{1,}c{0,1}$", ["aab", "aabbc"], ["ab"], "counts"),
    _ecma("^(?<year>[0-9]+)(?<$b>x)$", ["12x"], ["x"], "named groups"),
    _ecma("^(?P<year>[0-9]+)$", ["12"], ["x"], "named as in Python: not ECMA-262, but plain"),
    _ecma("(?<a>x)|(?<a>y)", ["x", "y"], ["z"], "one name in two alternatives"),
    _ecma("^[^]*?a??$", ["", "ba"], [], "lazy marks"),
    # Flags
    _ecma("(?i)^yes$", ["YES", "yes"], ["no"], "a leading flag, which schemas contain though ECMA-262 has none"),
    _ecma("^(?i:a)b$", ["Ab"], ["aB"], "modifiers of ES2025"),
    _ecma("^(?i:[^x])$", ["a"], ["x", "X"], "a negated class excludes all cases"),
    _ecma(r"^\w$", ["k", "K", "\u212a", "ſ"], ["é"], "with i and u, what folds to a word character is one", flags=re.I),
    _ecma(r"^\W$", ["é"], ["\u212a", "ſ", "k"], "and not in the complement", flags=re.I),
    _ecma("^İ$", ["İ"], ["i", "I", "ı"], "simple folding leaves the dotted I alone", flags=re.I),
    _ecma("^ß$", ["ß", "ẞ"], ["ss"], "and folds the capital sharp s", flags=re.I),
    _ecma("^b$", ["b", "a\nb\nc", "a\u2028b"], ["ab"], "lines", flags=re.M),
    # Boundaries
    _ecma(r"\ba\b", ["a", "b a c", "éaé"], ["ba"], "word characters are ASCII"),
    _ecma(r"\B", ["", "ab", "-"], ["a"], r"unlike Python's, \B holds in the empty text"),
]

PATTERN_CASES = PYTHON_CASES + ECMA_CASES
