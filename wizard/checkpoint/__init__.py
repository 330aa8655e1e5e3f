"""A checkpoint outside the catalogue: what its files say, and which parsers its template asks for."""

from wizard.checkpoint.detect import detect_parsers
from wizard.checkpoint.quantization import weight_format
from wizard.checkpoint.read import read_checkpoint
from wizard.checkpoint.types import Checkpoint, ParserGuess, Place, Sureness

__all__ = [
    "Checkpoint",
    "ParserGuess",
    "Place",
    "Sureness",
    "detect_parsers",
    "read_checkpoint",
    "weight_format",
]
