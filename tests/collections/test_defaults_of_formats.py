"""The default of an option is said once, in `Option`; a reader that says one too says the same."""

from __future__ import annotations

import inspect

import pytest

from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.collections.sources import Format
from visir.products.opening import FORMATS as CATALOGUES

EVERY = [one for registry in (FORMATS, JUDGEMENTS, CATALOGUES) for _, one in registry.items()]


@pytest.mark.parametrize("one", [one for one in EVERY if one.options], ids=lambda one: one.name)
def test_a_reader_has_the_defaults_of_its_options(one: Format) -> None:
    defaults = one.resolve({})
    parameters = inspect.signature(one.read).parameters
    further = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    assert further or set(defaults) <= set(parameters)
    for name, default in defaults.items():
        if name in parameters and parameters[name].default is not inspect.Parameter.empty:
            assert parameters[name].default == default, name


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_an_option_is_listed_once(one: Format) -> None:
    names = [option.name for option in one.options]
    assert len({*names}) == len(names)
