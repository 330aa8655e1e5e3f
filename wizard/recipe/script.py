"""A recipe as bash: the lines of one step, its check, and the whole as a script somebody else can run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from wizard.i18n import _
from wizard.recipe.types import Offer, Recipe, RecipeStep

HEAD = "#!/usr/bin/env bash\n# vllm-opencode "
"""What a script of ours begins with."""

_PRELUDE = """\
set -euo pipefail
if [ "$(id -u)" = 0 ] && ! command -v sudo >/dev/null; then
  sudo() { while [ "${1#-}" != "$1" ]; do shift; done; "$@"; }
fi
"""
"""Root needs no sudo, and in a container has none."""

_CHECK = """\
check() { # COMMAND EXPECTED UNWANTED: it succeeds, and its output shows the one and not the other
  local output
  output=$(bash -c "$1" 2>&1 </dev/null) || return 1
  if [ -n "$2" ]; then grep -Eq -- "$2" <<<"$output" || return 1; fi
  if [ -n "$3" ] && grep -Eq -- "$3" <<<"$output"; then return 1; fi
}
"""


def step_script(step: RecipeStep) -> str:
    """The commands of a step as a script of their own; the first one that fails ends it."""
    return "\n".join([_PRELUDE.rstrip(), *_exports(step.env), *step.commands, ""])


def whole_script(recipe: Recipe, found: Offer) -> str:
    """All steps as one script: each says why, is left out when it is done already, and is checked."""
    lines = [f"{HEAD}{recipe.id}", *_comments(recipe.title), *_comments(recipe.why)]
    for text in (*found.advice, *recipe.notes):
        lines += _comments(text)
    lines += [
        *_comments(_("Steps that are done already are left out: it can be run again.")),
        *_comments(_("Source: {source}").format(source=recipe.source)),
        "",
        _PRELUDE + _CHECK,
        *_exports(recipe.steps[0].env if recipe.steps else {}),
    ]
    for number, step in enumerate(recipe.steps, 1):
        lines += _block(step, f"{number}/{len(recipe.steps)} {step.title}")
    words = " ".join(shlex.quote(f"{name}={value}") for name, value in recipe.env.items())
    call = " ".join([*(["env", words] if words else []), shlex.join([*recipe.command, "serve"])])
    if recipe.command:
        lines += [f"echo {shlex.quote(_('Done. Start it with: {call} MODEL').format(call=call))}"]
    return "\n".join([*lines, ""])


def _block(step: RecipeStep, title: str) -> list[str]:
    check = " ".join(shlex.quote(word) for word in (step.check.command, step.check.expect, step.check.reject))
    failed = _("This did not work: {title}").format(title=step.title)
    lines = [
        "",
        *_comments(title),
        *_comments(step.why),
        f"echo {shlex.quote(f'== {title}')}",
        *_exports({name: value for name, value in step.result_env.items() if name not in step.env}),
    ]
    complain = [
        f"  echo {shlex.quote(failed)} >&2",
        *([f"  echo {shlex.quote(step.help)} >&2"] if step.help else []),
        f"  bash -c {shlex.quote(step.check.command)} >&2 || true",
        "  exit 1",
    ]
    if not step.commands:
        return [*lines, f"if ! check {check}; then", *complain, "fi"]
    return [
        *lines,
        f"if check {check}; then",
        f"  echo {shlex.quote(_('Done already.'))}",
        "else",
        # In a shell of its own: a change of folder ends with the step.
        "  (",
        *(f"    {line}" for line in step.commands),
        "  )",
        f"  if ! check {check}; then",
        *(f"  {line}" for line in complain),
        "  fi",
        "fi",
    ]


def _exports(env: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in env.items()]


def _comments(text: str) -> list[str]:
    return [f"# {line}" for line in text.splitlines()]
