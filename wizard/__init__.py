"""From bare NVIDIA hardware to a coding agent that works: the core, free of any screen."""

__version__ = "0.1.0"
