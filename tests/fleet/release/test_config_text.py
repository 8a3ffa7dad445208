"""Configs travel through files that give colons and the like a meaning, and come back equal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.core import Config
from skipjack.errors import UsageError
from skipjack.fleet.release.results import config_of, params_of

SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.text('tf0123456789.e+-~%,:;="! \n\\'),
    st.sampled_from(["true", "null", "NaN", "-Infinity", "12", "1e5", '"', "!", "", " "]),
)
CONFIGS = st.dictionaries(st.text(), SCALARS)


@given(CONFIGS)
def test_a_config_comes_back_with_its_types(settings: dict[str, bool | int | float | str]) -> None:
    config = Config(settings)
    params = params_of(config)
    assert not set(params) & set(";:=\r\n\0") and params == params.strip() and params.isascii()
    assert config_of(params).key == config.key


@given(CONFIGS, st.randoms())
def test_the_order_of_settings_does_not_matter(
    settings: dict[str, bool | int | float | str], random: "st.DrawFn"
) -> None:
    shuffled = list(settings.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert params_of(dict(shuffled)) == params_of(settings)


def test_ordinary_settings_are_readable() -> None:
    settings = {"vectors": 4, "rows": 6, "schedule": "m:4 n:64 k m/u", "fused": True, "d": "12"}
    text = 'd~"12",fused~true,rows~6,schedule~m%3A4 n%3A64 k m/u,vectors~4'
    assert params_of(settings) == text
    assert params_of({}) == "" and config_of("") == Config()


def test_what_json_has_besides_is_kept() -> None:
    config = Config.of({"none": None, "list": [1, "a:b"], "nested": {"x": [True]}})
    assert config_of(params_of(config)) == config
    assert math.isnan(float(config_of(params_of({"x": math.nan}))["x"]))


@pytest.mark.parametrize("params", ["1,8,16", "rows~1,rows~2", "x~![1", "rows"])
def test_what_others_wrote_is_refused(params: str) -> None:
    with pytest.raises(UsageError, match="not a config of Skipjack"):
        config_of(params)
