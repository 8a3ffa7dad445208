"""How configs become rows of numbers, and results values."""

import numpy as np
import pytest

from skipjack.core import Config, Parameter, ParameterSpace, Status, Trial
from skipjack.search import SearchContext
from skipjack.search.model.encoding import SettingsEncoding, encoding_of
from skipjack.search.model.observed import Compression, Observed
from skipjack.testing.spaces import BareSpace, tiled_space


def rows(values: tuple[int | float | str | bool, ...]) -> np.ndarray:
    encoding = SettingsEncoding({"one": values, "constant": (7,)})
    return encoding.rows([Config(one=value, constant=7) for value in values])


def test_numbers_are_in_order_between_rank_and_logarithm() -> None:
    assert rows((1, 2, 4, 8)).ravel().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    uneven = rows((0.5, 1.0, 8.0)).ravel()
    assert uneven[0] == 0 < uneven[1] < 0.5 < uneven[2] == 1
    assert rows((False, True)).ravel().tolist() == [0, 1]
    assert rows((0, 1, 2)).ravel().tolist() == pytest.approx([0, 0.5, 1])


def test_different_texts_are_equally_far() -> None:
    found = rows(("ijk", "kij", "jki"))
    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    assert apart[~np.eye(3, dtype=bool)] == pytest.approx(1.0)


def test_sizes_that_are_no_powers_of_two_have_their_alignment() -> None:
    assert rows((16, 32, 48, 64, 80)).shape == (5, 2)
    assert rows((16, 32, 48, 64, 80))[:, 1].tolist() == [0, 0.5, 0, 1, 0]
    assert rows((16, 32, 64, 128, 256)).shape == (5, 1)
    assert rows((0, 16, 32, 48, 64)).shape == (5, 1)


def test_a_space_without_settings_has_its_features_in_rows() -> None:
    space = BareSpace(tiled_space())
    rng = np.random.default_rng(0)
    samples = [space.sample(rng) for _ in range(20)]
    encoding = encoding_of(SearchContext(space), lambda: samples)
    found = encoding.rows(samples)
    assert found.shape == (20, len(encoding.groups))
    assert set(encoding.groups.tolist()) == {0}
    assert (encoding.rows(samples[3:4]) == found[3]).all()


def test_a_space_of_one_config_has_a_row() -> None:
    space = ParameterSpace([Parameter("only", (3,))])
    encoding = encoding_of(SearchContext(space), lambda: [space.default()])
    assert encoding.rows([space.default()]).shape == (1, 1)


def told(*values: float | None) -> Observed:
    found = Observed()
    for at, value in enumerate(values):
        config = Config(at=at)
        failed = Trial(config, Status.BUILD_ERROR)
        found.add(config.key, failed if value is None else Trial(config, value=value))
    return found


def test_times_become_logarithms() -> None:
    found = told(1.0, None, np.e)
    assert [*found.logarithms().values()] == pytest.approx([0.0, 1.0])
    assert (len(found), found.successes, len(found.failed)) == (3, 2, 1)


def test_negated_rates_are_better_the_larger_the_rate() -> None:
    assert [*told(-1.0, -np.e).logarithms().values()] == pytest.approx([0.0, -1.0])


@pytest.mark.parametrize("values", [(-1.0, 0.0, 3.0), (0.0, 1.0, 2.0), (0.0, 0.0, 0.0)])
def test_values_without_a_logarithm_keep_their_order(values: tuple[float, ...]) -> None:
    found = [*told(*values).logarithms().values()]
    assert sorted(found) == found
    assert np.isfinite(found).all()


def test_repeated_trials_of_a_config_count_as_their_mean() -> None:
    found = told(1.0)
    found.add(Config(at=0).key, Trial(Config(at=0), value=3.0))
    found.add(Config(at=0).key, Trial(Config(at=0), Status.CRASH, reason="it crashed"))
    assert [*found.logarithms().values()] == pytest.approx([np.log(2.0)])
    assert not found.failed


def test_bad_results_are_compressed_and_stay_in_order() -> None:
    values = np.array([0.0, 0.1, 0.2, 0.3, 2.0, 5.0])
    found = Compression.of(values, 0.5)(values)
    assert found[:3] == pytest.approx(values[:3])
    assert (np.diff(found) > 0).all()
    assert found[-1] < 1.5
    assert (Compression.of(values[:3], 0.5)(values[:3]) == values[:3]).all()
