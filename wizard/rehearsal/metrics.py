"""The counters vLLM keeps, as far as a client or a test looks at them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from wizard.rehearsal.chat import Completion


class Metrics:
    """Counts answers and renders them in Prometheus' text format."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._running = 0
        self._add("vllm:request_success_total", 0, finished_reason="stop")
        self._add("vllm:prompt_tokens_total", 0)
        self._add("vllm:generation_tokens_total", 0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """One more request is worked on meanwhile."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def count(self, answered: Completion, *, tools: bool, streamed: bool) -> None:
        """Record one answer; ``tools`` tells whether a tool parser had to look at it."""
        # The engine knows nothing of tools: an answer that is a call ends with "stop" for it.
        reason = "length" if answered.finish_reason == "length" else "stop"
        with self._lock:
            self._add("vllm:request_success_total", 1, finished_reason=reason)
            self._add("vllm:prompt_tokens_total", answered.prompt_tokens)
            self._add("vllm:generation_tokens_total", answered.completion_tokens)
            if tools:
                self._add(
                    "vllm:tool_call_parser_invocations_total",
                    1,
                    mode="streaming" if streamed else "non_streaming",
                    outcome="tool_call" if answered.call else "no_tool_call",
                    request_type="chat_completions",
                )

    def render(self) -> str:
        """The page of ``GET /metrics``."""
        running = "vllm:num_requests_running"
        with self._lock:
            served = f'engine="0",model_name="{_escaped(self._model)}"'
            lines = [f"# TYPE {running} gauge", f"{running}{{{served}}} {float(self._running)}"]
            for (name, labels), value in sorted(self._counts.items()):
                kind = f"# TYPE {name} counter"
                if kind not in lines:
                    lines.append(kind)
                written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
                lines.append(f"{name}{{{written}}} {float(value)}")
        return "\n".join((*lines, ""))

    def _add(self, name: str, amount: int, **labels: str) -> None:
        everywhere = {"model_name": self._model}
        if not name.startswith("vllm:tool_call_parser"):
            everywhere["engine"] = "0"
        self._counts[name, tuple(sorted({**everywhere, **labels}.items()))] += amount


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
