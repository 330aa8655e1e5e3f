"""Typed, lazy loaders of the bundled knowledge, with the user's overlay on top."""

from wizard.catalog.types import (
    GpuModel,
    Model,
    Origin,
    Parser,
    Quantization,
    Variant,
    WireFormat,
)

__all__ = ["GpuModel", "Model", "Origin", "Parser", "Quantization", "Variant", "WireFormat"]
