"""The names of the host's checks on screens."""

from __future__ import annotations

from wizard.i18n import N_, _

_CHECKS = {
    "gpu": N_("GPU"),
    "driver": N_("driver"),
    "busy": N_("other programs"),
    "memory": N_("memory"),
    "disk": N_("disk"),
    "shm": N_("shared memory"),
    "swap": N_("swap"),
    "port": N_("port"),
    "proxy": N_("proxy"),
    "identity": N_("system"),
    "gpu-state": N_("GPU state"),
    "visible": N_("visible GPUs"),
    "p2p": N_("GPU to GPU"),
    "disk-home": N_("disk of home"),
    "disk-images": N_("disk of images"),
    "file-system": N_("file system"),
    "low-power": N_("low power"),
    "bar1": N_("GPU window"),
    "governor": N_("CPU clock"),
    "disk-temporary": N_("temporary disk"),
    "limits": N_("limits"),
    "overcommit": N_("overcommit"),
    "glibc": N_("C library"),
    "secure-boot": N_("Secure Boot"),
    "python": N_("Python headers"),
    "compiler": N_("compiler"),
    "nvcc": N_("nvcc"),
    "numa": N_("libnuma"),
    "installer": N_("installer"),
    "docker": N_("Docker"),
    "podman": N_("Podman"),
    "linger": N_("lingering"),
    "firewall": N_("firewall"),
    "hugging-face": N_("Hugging Face"),
    "kernel-log": N_("kernel log"),
}


def check_title(check_id: str) -> str:
    """The name of a host check."""
    return _(_CHECKS.get(check_id, check_id))
