"""URIs, IRIs, JSON pointers and URI templates: the ABNF of their RFCs, rule by rule."""

from __future__ import annotations

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_hosts import ipv6_pattern
from fsmc.compiler.schema.format_machine import ALPHA, DIGIT, HEXDIG, machine

_PCT = f"%[{HEXDIG}]{{2}}"
_UNRESERVED = rf"{ALPHA}{DIGIT}._~\-"
_SUB_DELIMS = "!$&'()*+,;="
_PLANES = "".join(rf"\U{plane:04x}0000-\U{plane:04x}fffd" for plane in range(1, 14))
UCSCHAR = rf"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}\U000e1000-\U000efffd"
_IPRIVATE = r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"

# RFC 6901, section 3; what follows "/" is any text in which "~" is escaped
POINTER = r"(?:/(?:[^/~]|~[01])*)*"


def uri() -> DFA:
    """RFC 3986, ``URI``: with a scheme.

    >>> uri().matches(b"http://[2001:db8::7]:80/a?b#c"), uri().matches(b"//example.com"), uri().matches(b"http://a b")
    (True, False, False)
    """
    return machine(_with_scheme())


def uri_reference() -> DFA:
    """RFC 3986, ``URI-reference``: a URI or a relative reference.

    >>> uri_reference().matches(b"../a"), uri_reference().matches(b""), uri_reference().matches(b"1:b")
    (True, True, False)
    """
    return machine(f"{_with_scheme()}|{_relative()}")


def iri() -> DFA:
    """RFC 3987, ``IRI``: a URI in which characters beyond ASCII may stand for themselves.

    >>> iri().matches("http://ƒøø.ßår/?∂éœ=πîx#πîüx".encode()), iri().matches("/ƒøø".encode())
    (True, False)
    """
    return machine(_with_scheme(UCSCHAR, _IPRIVATE))


def iri_reference() -> DFA:
    """RFC 3987, ``IRI-reference``.

    >>> iri_reference().matches("/âππ".encode()), iri_reference().matches("#ƒräg\\\\mênt".encode())
    (True, False)
    """
    return machine(f"{_with_scheme(UCSCHAR, _IPRIVATE)}|{_relative(UCSCHAR, _IPRIVATE)}")


def json_pointer() -> DFA:
    """RFC 6901, section 3, as a string (not as a URI fragment).

    >>> json_pointer().matches(b"/a~1b/0"), json_pointer().matches(b"a"), json_pointer().matches(b"/~2")
    (True, False, False)
    """
    return machine(POINTER)


def relative_json_pointer() -> DFA:
    """draft-handrews-relative-json-pointer-01, section 3: how many levels up, then a pointer or ``#``.

    >>> relative_json_pointer().matches(b"2/a"), relative_json_pointer().matches(b"0#"), relative_json_pointer().matches(b"01")
    (True, True, False)
    """
    return machine(f"(?:0|[1-9][0-9]*)(?:#|{POINTER})")


def uri_template() -> DFA:
    """RFC 6570, section 2, with its errata (an apostrophe is a literal) and without the operators kept for later.

    >>> uri_template().matches(b"/users/{id:8}{?fields*,q}"), uri_template().matches(b"/users/{id")
    (True, False)
    """
    return machine(template_pattern("+#./;?&"))


def template_pattern(operators: str) -> str:
    """URI templates with these operators."""
    literal = rf"[!#$&'()*+,\-./{DIGIT}:;=?@{ALPHA}\[\]_~{UCSCHAR}{_IPRIVATE}]|{_PCT}"
    name_char = f"(?:[{ALPHA}{DIGIT}_]|{_PCT})"
    variable = rf"{name_char}(?:\.?{name_char})*(?:\*|:[1-9][0-9]{{0,3}})?"
    return rf"(?:{literal}|\{{[{operators}]?{variable}(?:,{variable})*\}})*"


def _with_scheme(more: str = "", private: str = "") -> str:
    """``URI``; ``more`` are characters allowed as the unreserved ones are, ``private`` such in the query only."""
    parts = _Parts(more, private)
    path = f"(?:{parts.authority_and_path}|{parts.absolute}|{parts.rootless})?"
    return f"[{ALPHA}][{ALPHA}{DIGIT}+.-]*:{path}{parts.query_and_fragment}"


def _relative(more: str = "", private: str = "") -> str:
    """``relative-ref``: its first path segment has no colon, or it would read as a scheme."""
    parts = _Parts(more, private)
    path = f"(?:{parts.authority_and_path}|{parts.absolute}|{parts.without_scheme})?"
    return f"{path}{parts.query_and_fragment}"


class _Parts:
    """The rules of RFC 3986, section 3, over an alphabet."""

    def __init__(self, more: str, private: str) -> None:
        plain = f"{_UNRESERVED}{more}{_SUB_DELIMS}"
        pchar = f"(?:[{plain}:@]|{_PCT})"
        user = f"(?:[{plain}:]|{_PCT})*"
        future = f"[Vv][{HEXDIG}]+\\.[{_UNRESERVED}{_SUB_DELIMS}:]+"
        # a dotted quad is also a registered name, so that it needs no alternative of its own
        host = rf"(?:\[(?:{ipv6_pattern()}|{future})\]|(?:[{plain}]|{_PCT})*)"
        segments = f"(?:/{pchar}*)*"
        self.authority_and_path = f"//(?:{user}@)?{host}(?::[{DIGIT}]*)?{segments}"
        self.absolute = f"/(?:{pchar}+{segments})?"
        self.rootless = f"{pchar}+{segments}"
        self.without_scheme = f"(?:[{plain}@]|{_PCT})+{segments}"
        self.query_and_fragment = rf"(?:\?(?:[{plain}:@/?{private}]|{_PCT})*)?(?:#(?:[{plain}:@/?]|{_PCT})*)?"
