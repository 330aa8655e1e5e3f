"""What opencode's configuration shall hold, whether it may be written, and whether it works when it is."""

from wizard.opencode.binary import find_opencode, merged_config, opencode_version
from wizard.opencode.confirm import confirm_change
from wizard.opencode.content import interleaved_field
from wizard.opencode.export import plan_export
from wizard.opencode.extras import ExtraPart, extra_prompt
from wizard.opencode.inspect import ConfiguredModel, configured_models, overridden, resolved_key
from wizard.opencode.install import install_command, install_opencode
from wizard.opencode.keys import is_variable
from wizard.opencode.locate import globals_wanted, target_file
from wizard.opencode.measure import PromptSize, measure_prompt
from wizard.opencode.proof import prove_change
from wizard.opencode.types import (
    Action,
    ConfigRequest,
    Confirmation,
    Globals,
    OpencodeChange,
    Proof,
    Target,
)
from wizard.opencode.write import plan_change, undo_change, write_change

__all__ = [
    "Action",
    "ConfigRequest",
    "ConfiguredModel",
    "Confirmation",
    "ExtraPart",
    "Globals",
    "OpencodeChange",
    "PromptSize",
    "Proof",
    "Target",
    "configured_models",
    "confirm_change",
    "extra_prompt",
    "find_opencode",
    "globals_wanted",
    "install_command",
    "install_opencode",
    "interleaved_field",
    "is_variable",
    "measure_prompt",
    "merged_config",
    "opencode_version",
    "overridden",
    "plan_change",
    "plan_export",
    "prove_change",
    "resolved_key",
    "target_file",
    "undo_change",
    "write_change",
]
