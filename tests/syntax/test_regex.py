"""parse_regex against the table of patterns, re itself, and the meaning of trees."""

import re

import pytest
from pattern_cases import PATTERN_CASES, PYTHON_CASES
from tree_matching import fullmatch

from fsmc.compiler.syntax.regex import parse_regex


@pytest.mark.parametrize("case", [case for case in PYTHON_CASES if case.in_re], ids=lambda case: case.id)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_table_says_what_re_does(case):
    compiled = re.compile(case.pattern, case.flags)
    for text in case.accept:
        assert compiled.fullmatch(text), text
    for text in case.reject:
        assert not compiled.fullmatch(text), text


@pytest.mark.parametrize("case", PATTERN_CASES, ids=lambda case: case.id)
def test_table(case):
    tree = parse_regex(case.pattern, case.flavor, case.flags)
    for text in case.accept:
        assert fullmatch(tree, text), text
    for text in case.reject:
        assert not fullmatch(tree, text), text
