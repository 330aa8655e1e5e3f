"""Tiny Qwen3 checkpoints that call tools, with weights set by hand and no training.

How an answer comes about:

1. The chat template (`answer.jinja`) reads the request and decides the answer: which tool, arguments that
   fit its schema, numbers and quoted text taken from the last user message; plain text without tools or
   after a tool result.
2. It writes that answer into the prompt as a row of hidden tokens, one for each byte, always `ROW` tokens
   long (the rest is filled with end marks), right before the mark that opens the assistant's turn.
3. The model (`weights.py`) has one attention layer that looks back exactly as far as that row begins, and
   says the visible twin of the hidden token it finds there. One token later it finds the next one, and so
   on to the end mark.

So vLLM's template rendering, engine, sampling, streaming and parsers all do their real work, and the answer
is known: the same at any temperature and any prompt length up to the window. It proves servers, parsers,
flags and clients, never a model's skill. Another chat template, or a bare completion, leaves the model with
nothing to say: it ends its turn.

These modules run in vLLM's environment and import nothing of the wizard. `alphabet` and `rotation` need
only Python.
"""
