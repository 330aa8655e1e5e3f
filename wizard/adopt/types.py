"""A server somebody else started, read back."""

from __future__ import annotations

import msgspec

from wizard.plan import AdoptedFrom, LaunchPlan


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """The plan that starts the same server, and where it was read; the plan carries its origin as well."""

    plan: LaunchPlan
    adopted_from: AdoptedFrom

    @property
    def unread(self) -> tuple[str, ...]:
        """Sentences about what could not be read."""
        return self.adopted_from.unread
