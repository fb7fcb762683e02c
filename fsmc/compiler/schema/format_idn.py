"""Names and addresses beyond ASCII (IDNA 2008, RFC 5890 to 5893; RFC 6531): a part that is certainly valid.

What a name's ASCII form is, and with it its length, no machine of sane size can tell; nor all of Unicode's normal form C.
So, beside names in ASCII, which are whole:

- a name has at most three labels of at most 11 characters, whose ASCII form cannot exceed 63 octets: eleven code
  points below U+10000 take at most 56 digits of Punycode (RFC 3492), and ``xn--``;
- letters are Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Kana, Han and Hangul;
- the only combining mark is the virama, so that there is no order of marks to normalize;
- next to labels written from right to left stand only such labels, and those in ASCII that begin with a letter.

Everything else is checked as the RFCs say: characters, hyphens, contexts, writing direction.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_hosts import ADDRESS_LITERAL, LABEL, local_part
from fsmc.compiler.schema.format_machine import DIGIT, machine

_MAX_CHARACTERS = 11
DOT = "[.\u3002\uff0e\uff61]"  # what separates labels (RFC 3490, section 3.1)

# RFC 5892, section 2.6: valid, and not valid, whatever the rules say
_EXCEPTIONS = "\u00df\u03c2\u06fd\u06fe\u0f0b\u3007"
_DISALLOWED = "\u0640"

_ARABIC_DIGITS, _PERSIAN_DIGITS = "\u0660-\u0669", "\u06f0-\u06f9"
_HEBREW, _GREEK = "\u05d0-\u05ea\u05ef-\u05f2", "\u0370-\u0373\u0375-\u03e1\u03f0-\u03ff\u1f00-\u1fff"
_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff"
_KANA_HAN = f"\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fd\u30fe{_HAN}"
_ZWNJ, _ZWJ = "\u200c", "\u200d"
# Arabic letters that join on both sides, and those that join to the letter before them only (Joining_Type D and R)
_JOIN_BOTH = "\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a"
_JOIN_BEFORE = "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648"


_BLOCKS = (
    (0xDF, 0x17F),
    (0x370, 0x45F),
    (0x5D0, 0x6FF),
    (0x904, 0x97F),
    (0xE01, 0xE5B),
    (0xF0B, 0xF0B),
    (0x3041, 0x30FE),
)
_HANGUL = "\uac00-\ud7a3"
_VIRAMA = "\u094d"


@cache
def _letters() -> tuple[str, str]:
    """Letters and digits written left to right, and letters written right to left, as contents of a character class.

    RFC 5892, section 2: letters and digits that neither normalization (KC) nor case folding changes.
    """
    left, right = [], []
    for character in (chr(code) for low, high in _BLOCKS for code in range(low, high + 1)):
        if _is_letter(character):
            direction = unicodedata.bidirectional(character)
            if direction == "L":
                left.append(character)
            elif direction in ("R", "AL"):
                right.append(character)
    return "".join(left) + _HAN + _HANGUL, "".join(right)


def _is_letter(character: str) -> bool:
    if character in _EXCEPTIONS:
        return True
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    return (
        folded == character
        and character not in _DISALLOWED
        and unicodedata.combining(character) == 0
        and unicodedata.category(character) in ("Ll", "Lo", "Lm", "Nd")
    )


def _without(labels: str, faults: list[str]) -> DFA:
    """The labels without those that have a fault (each a regex of whole labels)."""
    return machine(labels) - machine("(?s)" + "|".join(faults))


_HYPHENS = ["-.*", ".*-", "..--.*"]  # RFC 5891, section 4.2.3.1


@cache
def _left_to_right() -> DFA:
    """Labels without right-to-left characters."""
    left, _ = _letters()
    faults = [
        *_HYPHENS,
        f"[{_VIRAMA}{_ZWNJ}{_ZWJ}].*",  # RFC 5891, section 4.2.3.2
        f".*{_VIRAMA}{{2}}.*",
        f".*[^{_VIRAMA}][{_ZWNJ}{_ZWJ}].*",  # RFC 5892, appendix A, here and below
        "(?:.*[^l])?\u00b7.*|.*\u00b7(?:[^l].*)?",
        f".*\u0375(?:[^{_GREEK}].*)?",
        f"[^{_KANA_HAN}]*\u30fb[^{_KANA_HAN}]*",
    ]
    characters = f"a-z{DIGIT}{_PERSIAN_DIGITS}{left}{_VIRAMA}{_ZWNJ}{_ZWJ}\u00b7\u0375\u30fb-"
    return _without(f"[{characters}]{{1,{_MAX_CHARACTERS}}}", faults)


@cache
def _bidirectional() -> DFA:
    """Labels for names in which right-to-left characters occur (RFC 5893, section 2): of those, or ASCII."""
    _, right = _letters()
    european = f"{DIGIT}{_PERSIAN_DIGITS}"
    faults = [
        *_HYPHENS,
        f"[^{right}].*",
        f".*[{european}].*[{_ARABIC_DIGITS}].*|.*[{_ARABIC_DIGITS}].*[{european}].*",
        f".*[^{_HEBREW}][\u05f3\u05f4].*",
        f".*[^{_JOIN_BOTH}]{_ZWNJ}.*|.*{_ZWNJ}(?:[^{_JOIN_BOTH}{_JOIN_BEFORE}].*)?",
    ]
    characters = f"{right}{european}{_ARABIC_DIGITS}\u05f3\u05f4{_ZWNJ}-"
    from_right = _without(f"[{characters}]{{1,{_MAX_CHARACTERS}}}", faults)
    return from_right | _without(f"[a-z][a-z{DIGIT}-]{{0,{_MAX_CHARACTERS - 1}}}", _HYPHENS)


def _names(dot: str) -> DFA:
    """Names of one to three such labels."""
    separator = machine(dot)
    either = None
    for label in (_left_to_right(), _bidirectional()):
        names = label | (label + separator + label) | (label + separator + label + separator + label)
        either = names if either is None else either | names
    assert either is not None
    return either


def idn_hostname() -> DFA:
    """RFC 5890, section 2.3.2.3, within the bounds above; its length has a bound too, see MAX_LENGTH.

    >>> accepts = idn_hostname().matches
    >>> accepts("실례.테스트".encode()), accepts("l·l".encode()), accepts("l·a".encode()), accepts("aא".encode())
    (True, True, False, False)
    """
    label = f"(?!..--){LABEL}"
    return machine(f"{label}(?:{DOT}{label})*") | _names(DOT)


def idn_email() -> DFA:
    """RFC 6531, section 3.3, ``Mailbox``: local part of any characters beyond ASCII, domain as above.

    >>> idn_email().matches("실례@실례.테스트".encode()), idn_email().matches("a..b@실례.테스트".encode())
    (True, False)
    """
    domain = machine(rf"{LABEL}(?:\.{LABEL})*|{ADDRESS_LITERAL}") | _names(r"\.")
    return local_part(others="\x80-\U0010ffff") + machine("@") + domain
