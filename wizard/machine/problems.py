"""What a problem of the machine or of a GPU means, and what to do about it."""

from __future__ import annotations

import msgspec

from wizard.catalog import DriverPackage, host_facts
from wizard.i18n import N_, _
from wizard.machine.smi import DEADLINE_S
from wizard.machine.types import Machine


class Explanation(msgspec.Struct, frozen=True):
    """A problem code in words: what is the matter, and what helps."""

    meaning: str
    hint: str


_TEXTS = {
    "nvml-library-not-found": (
        N_("No NVIDIA driver is installed here: its library NVML was not found."),
        N_("Install the driver as {guide} says for this system, and restart the machine."),
    ),
    "nvml-driver-not-loaded": (
        N_("The NVIDIA driver is installed, but its kernel module is not loaded."),
        N_(
            "See why with: dkms status; mokutil --sb-state; lsmod | grep nouveau. Usual causes are a module "
            "not built for this kernel, Secure Boot, and nouveau in its place."
        ),
    ),
    "nvml-driver-mismatch": (
        N_("The driver's library was updated while the old kernel module is still loaded."),
        N_("Restart the machine."),
    ),
    "nvml-no-permission": (
        N_("This user may not open the GPU's device files."),
        N_("Look at ls -l /dev/nvidia* and join the group that owns them, or ask the administrator."),
    ),
    "nvml-no-devices": (
        N_("The driver runs, but sees no GPU."),
        N_("Look for NVRM lines in the kernel's log (sudo dmesg | grep NVRM); check the card and its power."),
    ),
    "nvml-timeout": (
        N_("The NVIDIA driver did not answer in time."),
        N_("Try nvidia-smi. If that hangs too, look for Xid in sudo dmesg and restart the machine."),
    ),
    "nvml-unknown": (
        N_("The NVIDIA driver answered with an unknown error."),
        N_("Try nvidia-smi and look for NVRM lines in the kernel's log (sudo dmesg | grep NVRM)."),
    ),
    "smi-timeout": (
        N_("nvidia-smi did not answer within {seconds} seconds: a driver is installed, but stuck."),
        N_("Look for Xid in the kernel's log (sudo dmesg | grep Xid), then restart the machine."),
    ),
    "gpus-from-nvidia-smi": (
        N_("The GPUs were read with nvidia-smi, because NVML could not be asked: NVLink is not known."),
        N_("Look for a second libnvidia-ml.so.1 on LD_LIBRARY_PATH: ldconfig -p | grep nvidia-ml"),
    ),
    "card-missing": (
        N_("There is no NVIDIA card on the PCI bus of this machine."),
        N_(
            "If one is built in, check its seat and power. Without one you can practise "
            "(vllm-opencode --simulate gb10) or use a vLLM elsewhere "
            "(vllm-opencode configure --base-url URL)."
        ),
    ),
    "card-nouveau": (
        N_("An NVIDIA card is there, but the free driver nouveau drives it, which cannot compute."),
        N_(
            "Keep nouveau away: blacklist it in /etc/modprobe.d, rebuild the initramfs, and restart with "
            "NVIDIA's driver installed."
        ),
    ),
    "card-passed-through": (
        N_("An NVIDIA card is there, but it is set aside for a virtual machine (vfio-pci)."),
        N_("Run the wizard inside that virtual machine, or give the card back to this host."),
    ),
    "card-without-driver": (
        N_("An NVIDIA card is there, but no driver is bound to it."),
        N_(
            "If NVIDIA's driver is installed, see why its module is not loaded: dkms status; "
            "mokutil --sb-state."
        ),
    ),
    "gpu-compute-prohibited": (
        N_("an administrator has forbidden it to compute"),
        N_("Allow it again with: sudo nvidia-smi -c DEFAULT -i INDEX"),
    ),
    "gpu-remap-pending": (
        N_("it has set faulty memory aside, which takes effect only after a restart"),
        N_("Restart the machine before you load a model. If it happens again, have the card replaced."),
    ),
    "gpu-fabric-not-started": (
        N_("the NVSwitch has not taken it in: every CUDA program fails there with error 802"),
        N_(
            "Start the fabric manager of exactly this driver's version: "
            "sudo systemctl enable --now nvidia-fabricmanager"
        ),
    ),
    "gpu-fabric-in-progress": (
        N_("the NVSwitch is still taking it in"),
        N_("Wait a minute and look again; if it stays so: systemctl status nvidia-fabricmanager"),
    ),
    "gpu-no-answer": (
        N_("it does not answer"),
        N_("Look for Xid in the kernel's log (sudo dmesg | grep Xid) and restart the machine."),
    ),
    "gpu-lost": (
        N_("it fell off the bus"),
        N_(
            "Look for Xid 79 in sudo dmesg, switch the machine off and on, and check power, seat and cooling."
        ),
    ),
    "gpu-reset-required": (
        N_("it must be reset after a fatal error"),
        N_("Reset it with sudo nvidia-smi --gpu-reset, or restart the machine."),
    ),
    "gpu-unreadable": (
        N_("the driver cannot open it"),
        N_("Look for NVRM lines in the kernel's log (sudo dmesg | grep NVRM)."),
    ),
    "gpu-memory-no-permission": (
        N_("its memory may not be read from here, as in a container that sees a GPU split with MIG"),
        N_("Hand the container a MIG instance, or the whole GPU with MIG switched off."),
    ),
    "gpu-capability-unknown": (
        N_("neither the driver nor our table knows its compute capability"),
        N_("Update the driver, or add the GPU to a file of your own in the overlay folder."),
    ),
    "gpu-mig-enabled": (
        N_("it is split with MIG, so that it cannot run anything as a whole"),
        N_("Switch MIG off with sudo nvidia-smi -mig 0, or give vLLM one MIG instance by its UUID."),
    ),
}
_IN_CONTAINER = {
    "nvml-library-not-found": N_("Start the container with the NVIDIA runtime: docker run --gpus all."),
    "nvml-no-permission": N_(
        "Start the container with access to the GPU's device files: docker run --gpus all."
    ),
    "nvml-no-devices": N_(
        "Hand the container its GPUs: docker run --gpus all, or --device nvidia.com/gpu=all with CDI."
    ),
    "nvml-unknown": N_("Restart the container: it can lose the GPU when systemd reloads on the host."),
}
_UNDER_WSL = {
    "nvml-library-not-found": N_(
        "Install the NVIDIA driver on Windows, not in WSL, then run: wsl --shutdown."
    ),
}


def explain_problem(code: str, machine: Machine) -> Explanation:
    """The code in the active language; ``machine`` decides the advice, which differs in a container and WSL.

    Codes of GPUs are worded to follow the GPU's name. A code that is not known is shown as it is.
    """
    if code not in _TEXTS:
        if code.startswith("gpu-memory-"):
            meaning = _("its memory cannot be read ({code})").format(code=code)
            return Explanation(meaning, _("Look at nvidia-smi for this GPU."))
        return Explanation(code, "")
    meaning, hint = _TEXTS[code]
    package = _package(machine)
    if code == "nvml-library-not-found" and package is not None:
        hint = N_("Install the driver and restart the machine: {command} (what it needs first: {guide}).")
    if machine.wsl:
        hint = _UNDER_WSL.get(code, hint)
    if machine.container:
        hint = _IN_CONTAINER.get(code, hint)
    words = {"guide": host_facts().driver_guide, "command": package.command if package else ""}
    return Explanation(_(meaning).format(seconds=f"{DEADLINE_S:.0f}"), _(hint).format(**words))


def _package(machine: Machine) -> DriverPackage | None:
    """How the driver is installed on this family of distributions."""
    name = machine.os.lower()
    return next(
        (package for package in host_facts().driver_package if any(mark in name for mark in package.marks)),
        None,
    )
