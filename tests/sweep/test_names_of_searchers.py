"""What a sweep file imports from `skipjack.sweep`."""

import inspect

from skipjack import sweep
from skipjack.search import scripted


def test_searchers_are_the_same_under_both_names() -> None:
    assert {"Step", "Bisect", "Composer", "CartesianProduct"} < set(sweep.__all__)
    assert {"SearcherInterface", "Run", "do_send"} < set(sweep.__all__)
    for name in sweep.__all__:
        assert getattr(sweep, name) is getattr(scripted, name)


def test_everything_listed_is_documented() -> None:
    for name in scripted.__all__:
        thing = getattr(scripted, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
