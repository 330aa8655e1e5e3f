"""Whether a service of this user survives the logout and a restart."""

from __future__ import annotations

from wizard.i18n import _
from wizard.machine.checks.subject import Subject
from wizard.machine.types import Check


def linger(subject: Subject) -> Check:
    """Without lingering, systemd stops a user's services with the last logout."""
    probe = subject.probe
    id = "linger"
    user = probe.environ.get("USER") or probe.environ.get("LOGNAME") or ""
    if not probe.exists("run/systemd/system"):
        detail = _("There is no systemd here: a service needs another way to start.")
        return Check(id=id, status="skip", detail=detail, command="ls /run/systemd/system")
    if not user or "/" in user:
        return Check(id=id, status="skip", detail=_("This user has no name here."), command="id -un")
    command = f"loginctl show-user {user} -p Linger"
    if user == "root":
        detail = _("As root a service belongs to the system and needs no lingering.")
        return Check(id=id, status="ok", detail=detail, command=command)
    if not probe.exists(f"var/lib/systemd/linger/{user}"):
        return Check(
            id=id,
            status="warn",
            detail=_("Services of {user} stop at logout and do not start with the machine.").format(
                user=user
            ),
            hint=_("Once: sudo loginctl enable-linger {user}").format(user=user),
            command=command,
        )
    if not probe.environ.get("XDG_RUNTIME_DIR"):
        return Check(
            id=id,
            status="warn",
            detail=_("Services of {user} go on, but this session cannot reach them.").format(user=user),
            hint=_(
                "Log in as {user} itself, not with su or sudo -i; or set XDG_RUNTIME_DIR=/run/user/$(id -u)."
            ).format(user=user),
            command="systemctl --user is-system-running",
        )
    detail = _("Services of {user} go on after the logout.").format(user=user)
    return Check(id=id, status="ok", detail=detail, command=command)
