"""A plan written as a command or as vLLM's argument line, and read back, means the same."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.adopt import adopt_line
from wizard.adopt.arguments import read_arguments
from wizard.catalog import flag_facts
from wizard.plan.words import read_call

FACTS = flag_facts()
LISTS = sorted(set(FACTS.spelling.lists) - set(FACTS.spelling.secret))
VALUED = sorted(
    set(FACTS.recorded.options)
    - set(FACTS.spelling.bare)
    - set(LISTS)
    - set(FACTS.spelling.secret)
    - set(FACTS.spelling.same)
    - {"model", "config"}
)
SHORT = {long: short for short, long in FACTS.spelling.short.items()}
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda text: not text.startswith("-")
)
PYTHON = st.recursive(
    st.booleans() | st.integers(-99, 10**6) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def commands(draw: st.DrawFn) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The words of a command, spelled as people do, and what each option means."""
    meaning: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    for name in draw(st.lists(st.sampled_from(VALUED), unique=True, max_size=6)):
        value = draw(TEXT)
        spelled = f"--{name}" if draw(st.booleans()) else f"--{name.replace('-', '_')}"
        if name in SHORT and draw(st.booleans()):
            spelled = SHORT[name]
        words += [f"{spelled}={value}"] if draw(st.booleans()) else [spelled, value]
        meaning[f"--{name}"] = (value,)
    for name in draw(st.lists(st.sampled_from(FACTS.recorded.switches), unique=True, max_size=3)):
        flag = f"--{draw(st.sampled_from(['', 'no-']))}{name}"
        words.append(flag)
        meaning[flag] = ()
    for name in draw(st.lists(st.sampled_from(LISTS), unique=True, max_size=2)):
        values = draw(st.lists(TEXT, min_size=1, max_size=3))
        words += [f"--{name}", *values]
        meaning[f"--{name}"] = tuple(values)
    return words, meaning


@settings(deadline=None)
@given(commands())
def test_a_command_means_the_same_after_it_was_read(
    made: tuple[list[str], dict[str, tuple[str, ...]]],
) -> None:
    words, meaning = made
    call = read_call(["vllm", "serve", "org/m", *words])
    assert call is not None
    assert (call.command, call.model) == (("vllm", "serve", "org/m"), "org/m")
    assert {option.flag: option.words[1:] for option in call.options} == meaning
    again = read_call([*call.command, *(word for option in call.options for word in option.words)])
    assert again == call


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(VALUED), TEXT | st.integers(0, 10**6), max_size=6))
def test_an_argument_line_holds_the_options_it_was_made_of(values: dict[str, object]) -> None:
    shown = {"model_tag": "org/m", **{name.replace("-", "_"): value for name, value in values.items()}}
    adopted = adopt_line(f"(APIServer pid=7) INFO 01-01 00:00:00 [a.py:1] non-default args: {shown!r}")
    assert adopted is not None
    masked = {name for name, value in values.items() if value in ("***", "[REDACTED]")}
    wanted = {f"--{name}": str(value) for name, value in values.items() if name not in masked}
    assert {option.flag: option.value for option in adopted.plan.options} == wanted
    assert adopted.plan.checkpoint == "org/m"


@settings(deadline=None)
@given(st.dictionaries(TEXT, PYTHON, min_size=1, max_size=3))
def test_nested_values_become_the_same_json(value: dict[str, object]) -> None:
    said = read_arguments(f"non-default args: {{'model': 'm', 'compilation_config': {value!r}, 'seed': 3}}")
    assert said is not None
    config, seed = said.options
    assert msgspec.json.decode(config.value or "") == msgspec.json.decode(msgspec.json.encode(value))
    assert (seed.flag, seed.value) == ("--seed", "3")


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_rest_of_a_line_is_read_without_an_error(rest: str) -> None:
    for start in ("non-default args: {'model': ", "args: Namespace(model="):
        assert read_arguments(start + rest) is not None
