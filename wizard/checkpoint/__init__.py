"""A checkpoint outside the catalogue: what its files say, and which parsers its template asks for."""

from wizard.checkpoint.detect import detect_parsers
from wizard.checkpoint.quantization import weight_format
from wizard.checkpoint.read import read_checkpoint
from wizard.checkpoint.types import Checkpoint, ParserGuess, Place, Sureness
from wizard.checkpoint.written import Thought, Written, family_of, readers_of, split_thought, written_in

__all__ = [
    "Checkpoint",
    "ParserGuess",
    "Place",
    "Sureness",
    "Thought",
    "Written",
    "detect_parsers",
    "family_of",
    "read_checkpoint",
    "readers_of",
    "split_thought",
    "weight_format",
    "written_in",
]
