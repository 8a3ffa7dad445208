"""The one evaluator for expressions from files."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.core import Expression
from skipjack.core.expressions import MAX_LENGTH
from skipjack.core.operators import Undefined
from skipjack.core.tabulation import evaluate_node
from skipjack.errors import ExpressionError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b * 2", 14),
        ("-a ** 2", -16),
        ("7 // b % 2", 1),
        ("a / 8", 0.5),
        ("1 < a <= 4 != b", True),
        ("1 < a < 3", False),
        ("a in (1, 2, 4)", True),
        ("a not in [-1, 4]", False),
        ("kind == 'fast' and a > 3", True),
        ("not a or b", 5),
        ("a if kind == 'slow' else b", 5),
        ("min(a, b, 3) + max(a, b)", 8),
        ("abs(-a) + int(2.7) + round(2.5)", 8),
        ("ceil(a / 3) + floor(a / 3)", 3),
        ("log2(a) + gcd(a, 6)", 4.0),
        ("True + True", 2),
        ("b == 0 or a % b == 4", True),
    ],
)
def test_it_computes_as_python_does(text: str, value: object) -> None:
    assert Expression(text).evaluate({"a": 4, "b": 5, "kind": "fast"}) == value


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a.b", "'a.b'"),
        ("a[0]", "'a[0]'"),
        ("open('x')", "\"open('x')\""),
        ("(lambda: 1)()", "lambda"),
        ("[x for x in (1,)]", "for"),
        ("__import__", "'__import__'"),
        ("f'{a}'", "f'{a}'"),
        ("a := 1", "invalid syntax"),
        ("min(a)", "1 arguments"),
        ("round(a, ndigits=1)", "ndigits"),
        ("a is b", "'a is b'"),
        ("a in b", "'b' must be a list of constants"),
        ("a in (b, 1)", "'b' is not a constant"),
        ("None", "'None'"),
        ("1j", "'1j'"),
        ("a @ b", "'a @ b'"),
        ("a <<", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_everything_else_is_refused_with_the_offending_part(text: str, part: str) -> None:
    with pytest.raises(ExpressionError) as error:
        Expression(text)
    assert part in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "'x' * 1000000000",
        "'%1000000000d' % 1",
        "9" * 1000,
        "(" * 300 + "a" + ")" * 300,
        "-" * 500 + "a",
        "+".join(["a"] * MAX_LENGTH),
        "(a<" * 60 + "a" + "<a)" * 60,
    ],
)
def test_nothing_grows_without_bound(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text).evaluate({"a": 1})


def test_sizes_are_bounded_for_values_that_come_later() -> None:
    with pytest.raises(ExpressionError, match="bits"):
        Expression("a ** a").evaluate({"a": 10**6})
    with pytest.raises(ExpressionError, match="bits"):
        Expression("a * a * a").evaluate({"a": 2**400})


def test_what_divides_by_zero_has_no_value_and_does_not_hold() -> None:
    expression = Expression("a % b == 0")
    assert not expression.holds({"a": 4, "b": 0})
    assert not Expression("not a % b == 0").holds({"a": 4, "b": 0})
    with pytest.raises(ExpressionError, match="no value"):
        expression.evaluate({"a": 4, "b": 0})


def test_mixing_text_and_numbers_is_a_mistake() -> None:
    with pytest.raises(ExpressionError, match="not a number"):
        Expression("a < 3").holds({"a": "x"})
    assert not Expression("a == 3").holds({"a": "x"})


def test_missing_names_are_listed() -> None:
    with pytest.raises(ExpressionError, match=r"needs tile; the available names are: a, b"):
        Expression("tile * a").evaluate({"a": 1, "b": 2})


def test_names_are_the_values_it_needs() -> None:
    assert Expression("min(a, 3) < b or c in (1, 2)").names == {"a", "b", "c"}


_TEXTS = st.recursive(
    st.sampled_from(["a", "b", "c", "2", "0", "1.5", "True"]),
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">=", "and", "or"]
            ),
            inner,
        ),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("({} in (1, 2, 0.5))".format, inner),
    ),
    max_leaves=6,
)
_VALUES = st.lists(st.integers(-3, 5), min_size=1, max_size=4)


@given(_TEXTS, _VALUES, _VALUES, st.lists(st.sampled_from([0.5, -2.0, 0.0, 3.0]), min_size=1))
def test_arrays_give_what_single_values_give(
    text: str, a: list[int], b: list[int], c: list[float]
) -> None:
    expression = Expression(text)
    arrays = {
        "a": np.array(a).reshape(-1, 1, 1),
        "b": np.array(b).reshape(-1, 1),
        "c": np.array(c),
    }
    shape = (len(a), len(b), len(c))
    whole = np.asarray(evaluate_node(expression.node, arrays))
    result = np.broadcast_to(whole, shape)
    for at in np.ndindex(shape):
        values = {"a": a[at[0]], "b": b[at[1]], "c": c[at[2]]}
        assert _same(result[at], _single(expression, values)), (text, values)


def _single(expression: Expression, values: dict[str, Any]) -> object:
    try:
        return expression.evaluate(values)
    except ExpressionError:
        return Undefined("")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return isinstance(left, Undefined) and isinstance(right, Undefined)
    return bool(left == right) or (math.isnan(left) and math.isnan(right))


def test_large_products_of_arrays_do_not_wrap_around() -> None:
    values = np.array([2**40, 3])
    result = evaluate_node(Expression("a * a").node, {"a": values})
    assert result.tolist() == [2**80, 9]
