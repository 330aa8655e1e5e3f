"""Journeys as they stand at each step, made by hand: a DGX Spark that serves Qwen3-Coder-Next."""

from __future__ import annotations

import msgspec

from wizard.budget import Budget, Limits
from wizard.compat import Choice, Reason, Row
from wizard.diagnosis import Diagnosis, Evidence, Finding, Remedy
from wizard.flow import Answers, Journey, MachineAnswers, StartAnswers, Step
from wizard.machine import Check, Disk, Gpu, Machine, MemoryReading
from wizard.memory import KvPlan, MemoryPlan
from wizard.opencode import OpencodeChange, Proof
from wizard.plan import LaunchPlan, Option, PlanReason
from wizard.runtime import Runtime
from wizard.serve import LogLine, Milestone, Progress, Ready, Run, Server
from wizard.smoke import CostlyOption, SmokeCheck, SmokeReport, Speed, StreamRate

SIMULATED = Answers(machine=MachineAnswers(simulate="gb10"))


def gpu(index: int = 0, **changes: object) -> Gpu:
    """The GPU of a DGX Spark."""
    spark = Gpu(
        index=index,
        name="NVIDIA GB10",
        uuid=f"GPU-{index}",
        compute_capability="12.1",
        memory_mib=124610,
        memory_free_mib=115787,
        memory_origin="measured",
        unified=True,
        bandwidth_gbs=273.0,
        architecture="Blackwell",
        links={},
    )
    return msgspec.structs.replace(spark, **changes)


def spark(**changes: object) -> Machine:
    """The machine around it."""
    machine = Machine(
        hostname="spark",
        arch="aarch64",
        os="DGX OS 7",
        kernel="6.11",
        product="MSI EdgeXpert",
        cpu_count=20,
        container=None,
        wsl=False,
        driver="580.142",
        cuda="13.0",
        gpus=(gpu(),),
        nvlink_groups=(),
        memory=MemoryReading(total_mib=124610, available_mib=115787),
        disks=(
            Disk(purpose="models", path="/home/operator/.cache/huggingface", total_gib=915.0, free_gib=412.0),
        ),
        shm=None,
        problems=(),
    )
    return msgspec.structs.replace(machine, **changes)


def ten_voltas() -> Machine:
    """Ten V100 in two NVLink groups: more lines than a small terminal has to spare."""
    gpus = tuple(
        gpu(
            number,
            name="Tesla V100-SXM2-32GB",
            compute_capability="7.0",
            memory_mib=32768,
            unified=False,
            bandwidth_gbs=900.0,
        )
        for number in range(10)
    )
    return spark(
        product="Inspur 10xV100", arch="x86_64", gpus=gpus, nvlink_groups=((0, 1, 2, 3), (4, 5, 6, 7))
    )


CHECKS = (
    Check(id="gpu", status="ok", detail="1 x NVIDIA GB10, 121.7 GiB shared with the system."),
    Check(id="driver", status="ok", detail="Driver 580.142, for CUDA up to 13.0."),
    Check(
        id="memory",
        status="warn",
        detail="113.1 of 121.7 GiB available. The page cache holds 22.0 GiB, which CUDA counts as taken.",
        hint="Just before the launch: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
    ),
    Check(id="disk", status="ok", detail="412 GiB free where models go (/home/operator/.cache/huggingface)."),
    Check(
        id="port",
        status="fail",
        detail="This user may not listen on port 80.",
        hint="Choose a port above 1023.",
    ),
    Check(id="proxy", status="skip", detail="Not looked at: this is not the machine it runs on."),
)

RUNTIMES = (
    Runtime(
        kind="venv",
        path="/opt/vllm",
        command=("/opt/vllm/bin/vllm",),
        version="0.33.0",
        torch="2.11.0",
        cuda="13.0",
        tool_parsers=("hermes", "mistral", "openai", "qwen3_coder"),
        reasoning_parsers=("qwen3",),
        flags=("--max-model-len", "--port"),
    ),
    Runtime(
        kind="venv",
        path="/home/operator/.venv",
        command=("/home/operator/.venv/bin/vllm",),
        version="0.11.0",
        torch="2.8.0",
        tool_parsers=("hermes",),
    ),
    Runtime(
        kind="command",
        path="/usr/local/bin/vllm",
        command=("/usr/local/bin/vllm",),
        problem="ImportError: libcudart.so.12: cannot open shared object file",
    ),
)

_FITS = Reason(code="fits", text="Fits with 21 GiB to spare for the KV cache.", source="computed")
_PARSER = Reason(
    code="parser-known", text="Parser qwen3_coder is known to vLLM 0.33.0.", source="asked of vLLM"
)


def row(name: str, variant: str, weights: float, parser: str | None, verdict: str, *reasons: Reason) -> Row:
    """A line of the matrix."""
    return Row(
        model=name.lower(),
        variant=variant,
        name=name,
        checkpoint=f"Org/{name}-{variant.upper()}",
        quantization=variant,
        weights_gib=weights,
        fits=verdict != "no",
        max_context=262144 if verdict != "no" else None,
        parser=parser,
        reasoning_parser=None,
        gpus=(0,),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        verdict=verdict,  # type: ignore[arg-type]
        reasons=reasons,
    )


ROWS = (
    msgspec.structs.replace(
        row("Qwen3-Coder-Next", "fp8", 75.0, "qwen3_coder", "ok", _PARSER, _FITS), tokens_per_second=45.3
    ),
    row("gpt-oss-120b", "mxfp4", 61.0, "openai", "ok", _FITS),
    row(
        "Devstral-Small-24B",
        "fp8",
        24.0,
        "mistral",
        "warn",
        Reason(
            code="emulated",
            text="FP4 runs as stored weights only: half the speed.",
            source="vLLM quantization",
        ),
    ),
    row(
        "Qwen2.5-Coder-32B",
        "bf16",
        61.4,
        None,
        "no",
        Reason(
            code="cannot-call-tools",
            text="It writes its tool calls between <tools> tags, and no parser of vLLM reads those.",
            source="https://github.com/vllm-project/vllm/issues/29192",
            refuses=True,
        ),
    ),
)

CHOICE = Choice(
    model="qwen3-coder-next",
    variant="fp8",
    checkpoint="Org/Qwen3-Coder-Next-FP8",
    served_model_name="qwen3-coder-next-fp8",
    quantization="fp8",
    parser="qwen3_coder",
    reasoning_parser=None,
    thinks=False,
    weights_gib=75.0,
    config={},
    context=262144,
    gpus=(0,),
    tensor_parallel_size=1,
    pipeline_parallel_size=1,
    args=(),
    reasons=(_PARSER, _FITS),
)

LIMITS = Limits(
    context=65536,
    input=57344,
    output=8192,
    reserved=8192,
    tool_output=None,
    base_prompt_tokens=7100,
    base_prompt_origin="measured",
    room_tokens=42052,
)

MEMORY = MemoryPlan(
    total_gib=121.7,
    requested_gib=102.9,
    weights_gib=75.0,
    activation_gib=2.9,
    graphs_gib=0.6,
    other_gib=0.3,
    available_kv_gib=24.1,
    gpu_memory_utilization=0.846,
    origins={
        "weights_gib": "table",
        "activation_gib": "computed",
        "graphs_gib": "assumed",
        "other_gib": "assumed",
    }
    | {"available_kv_gib": "computed"},
)

KV = KvPlan(
    max_model_len=65536,
    bytes_per_token=24576,
    block_size=16,
    bytes_per_block=393216,
    groups=1,
    num_blocks=65750,
    blocks_per_request=4096,
    cache_tokens=1052000,
    max_concurrency=16.1,
    needed_gib=1.5,
    max_model_len_fit=262144,
)

BUDGET = Budget(max_model_len=65536, memory=MEMORY, kv=KV, opencode=LIMITS)

PLAN = LaunchPlan(
    command=("/opt/vllm/bin/vllm", "serve", CHOICE.checkpoint),
    base_options=(
        Option(flag="--host", value="127.0.0.1"),
        Option(flag="--port", value="8000"),
        Option(flag="--served-model-name", value=CHOICE.served_model_name),
        Option(flag="--max-model-len", value="65536"),
        Option(flag="--enable-auto-tool-choice"),
        Option(flag="--tool-call-parser", value="qwen3_coder"),
    ),
    base_env={"VLLM_NO_USAGE_STATS": "1"},
    runtime_kind="venv",
    runtime_path="/opt/vllm",
    vllm_version="0.33.0",
    model=CHOICE.model,
    checkpoint=CHOICE.checkpoint,
    served_model_name=CHOICE.served_model_name,
    parser="qwen3_coder",
    reasoning_parser=None,
    host="127.0.0.1",
    port=8000,
    timeout_s=1800.0,
    limits=LIMITS,
    memory=MEMORY,
    reasons=(
        PlanReason(subject="--port", why="Where opencode will look for it.", source="vLLM flags"),
        PlanReason(
            subject="--enable-auto-tool-choice",
            why="Without it vLLM refuses every request that offers tools.",
            source="vLLM tool calling",
        ),
    ),
)

REFUSED = msgspec.structs.replace(
    PLAN,
    refused=(
        Reason(
            code="compaction-loop",
            text="opencode would tidy up for ever: its first prompt alone fills the window.",
            source="opencode",
            refuses=True,
        ),
    ),
)

RUN = Run(
    id="20261130-120000-abc",
    plan_id=PLAN.id,
    folder="/home/operator/.local/state/vllm-opencode/runs/1",
    log="/home/operator/.local/state/vllm-opencode/runs/1/vllm.log",
    pid=4711,
    process_started=1.0,
    started_at=1.0,
    base_url="http://127.0.0.1:8000/v1",
    served_model_name=CHOICE.served_model_name,
    argv=PLAN.argv,
)

SERVER = Server(
    base_url="http://127.0.0.1:8000/v1",
    served_names=(CHOICE.served_model_name,),
    model=CHOICE.served_model_name,
    max_model_len=65536,
    version="0.33.0",
    started_by="wizard",
    pid=4711,
)

EVENTS = (
    Milestone(seconds=2.0, id="started", title="vLLM started", detail="0.33.0"),
    LogLine(
        seconds=2.0, number=1, text="(APIServer pid=4711) INFO 11-30 12:00:02 vLLM API server version 0.33.0"
    ),
    Milestone(seconds=11.0, id="recognised", title="Model recognised", detail="Qwen3NextForCausalLM"),
    LogLine(seconds=11.0, number=2, text="(APIServer pid=4711) INFO 11-30 12:00:11 [bold]not markup[/bold]"),
    Milestone(seconds=14.0, id="weights", title="Loading weights"),
    Progress(seconds=178.0, id="weights", done=31, total=40),
    LogLine(
        seconds=178.0,
        number=3,
        text="(EngineCore pid=901) Loading safetensors checkpoint shards: 78% | 31/40",
    ),
)

READY = Ready(
    seconds=192.0,
    base_url=SERVER.base_url,
    served_names=SERVER.served_names,
    max_model_len=SERVER.max_model_len,
)

EVIDENCE = (
    "(EngineCore pid=901) ERROR 11-30 12:01:04 EngineCore failed to start.",
    "RuntimeError: Triton Error [CUDA]: operation not permitted",
)

SMOKE_OK = (
    SmokeCheck(
        id="models", title="served name", required=True, status="ok", detail="qwen3-coder-next-fp8", ms=12
    ),
    SmokeCheck(id="chat", title="chat", required=True, status="ok", detail="Answered: Hello.", ms=420),
    SmokeCheck(
        id="tool", title="tool call", required=True, status="ok", detail='add {"a": 17, "b": 25}', ms=800
    ),
)

SMOKE_FAIL = SmokeCheck(
    id="stream",
    title="tool call, streaming",
    required=True,
    status="fail",
    detail="The call came as text: <tools>",
    evidence='<tools>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tools>',
    hint="opencode streams: it would print this text and do nothing.",
    ms=900,
)

BRAKE = CostlyOption(
    id="eager",
    option="--enforce-eager",
    title="No compilation and no CUDA graphs",
    price_min=0.15,
    price_max=0.2,
    source="a test",
)
SPEED = Speed(
    ttft_ms=2410.0,
    decode_tps=33.4,
    prefill_tps=3324.5,
    prompt_tokens=8012,
    short_ttft_ms=80.0,
    streams=(
        StreamRate(streams=1, decode_tps=33.4, roofline_tps=68.0, share=0.491, origin="computed"),
        StreamRate(streams=4, decode_tps=80.7, roofline_tps=127.0, share=0.635, origin="assumed"),
    ),
    roofline_tps=68.0,
    share=0.491,
    brakes=(BRAKE,),
)
PASSED = SmokeReport(server=SERVER, checks=SMOKE_OK, verdict="pass", speed=SPEED)
FAILED = SmokeReport(server=SERVER, checks=(*SMOKE_OK, SMOKE_FAIL), verdict="fail")

DIFF = """--- /home/operator/.config/opencode/opencode.jsonc
+++ /home/operator/.config/opencode/opencode.jsonc
@@ -10,5 +10,12 @@
   // yours, kept: [red]not markup[/red]
   "provider": {
-    "vllm": {}
+    "vllm": {
+      "npm": "@ai-sdk/openai-compatible",
+      "options": { "baseURL": "http://127.0.0.1:8000/v1" },
+      "models": { "qwen3-coder-next-fp8": { "limit": { "context": 65536, "output": 8192 } } }
+    }
   }
"""

CHANGE = OpencodeChange(
    path="/home/operator/.config/opencode/opencode.jsonc",
    action="updated",
    diff=DIFF,
    before=b"{}",
    after=b'{"provider": {}}',
    backup="/home/operator/.config/opencode/opencode.jsonc.2026-11-30.bak",
    provider="vllm",
    model="vllm/qwen3-coder-next-fp8",
    limit={"context": 65536, "output": 8192},
)
WRITTEN = msgspec.structs.replace(CHANGE, written=True)

PROOF = Proof(
    status="passed",
    detail="opencode wrote a file through a tool call.",
    opencode_version="1.18.2",
    tool_executed=True,
    requests=2,
)

DIAGNOSIS = Diagnosis(
    verdict="failed",
    lines=412,
    bytes=51234,
    findings=(
        Finding(
            fault="TRITON-PERM",
            severity="error",
            title="The sampler's kernel cannot be loaded on this GPU.",
            cause="This build of vLLM has no kernels for sm_121.",
            evidence=(Evidence(line=412, text="RuntimeError: Triton Error [CUDA]: operation not permitted"),),
            remedies=(
                Remedy(
                    title="Use a build made for this GPU", kind="package", commands=("pip install -U vllm",)
                ),
                Remedy(title="Sample with FlashInfer", kind="env", env={"VLLM_USE_FLASHINFER_SAMPLER": "1"}),
            ),
        ),
        Finding(
            fault="TOKENIZER-SLOW",
            severity="info",
            title="A slow tokenizer is used.",
            cause="Harmless.",
            evidence=(Evidence(line=9, text="Using a slow tokenizer"),),
        ),
    ),
)

_ORDER: tuple[tuple[Step, dict[str, object]], ...] = (
    (Step.START, {}),
    (Step.MACHINE, {"machine": spark(), "checks": CHECKS}),
    (Step.RUNTIME, {"runtimes": RUNTIMES, "runtime": RUNTIMES[0]}),
    (Step.MODEL, {"rows": ROWS, "choice": CHOICE}),
    (Step.BUDGET, {"budget": BUDGET, "plan": PLAN}),
    (Step.LAUNCH, {"run": RUN, "server": SERVER}),
    (Step.SMOKE, {"smoke": PASSED}),
    (Step.OPENCODE, {"change": WRITTEN, "proof": PROOF}),
    (Step.DONE, {}),
)


def at(step: Step, *, worked: bool = True, answers: Answers | None = None, **changes: object) -> Journey:
    """A journey that stands at a step, with the results of all earlier ones.

    ``worked``: with this step's own results too, so that its screen begins no work.
    """
    results: dict[str, object] = {}
    for name, found in _ORDER:
        if name is step and not worked:
            break
        results |= found
        if name is step:
            break
    return Journey(answers=answers or Answers(), step=step, **(results | changes))  # type: ignore[arg-type]


def diagnosing() -> Journey:
    """A journey on the road that reads a log."""
    start = StartAnswers(mode="troubleshoot", log="/var/log/vllm.log")
    return Journey(answers=Answers(start=start), step=Step.DIAGNOSE, diagnosis=DIAGNOSIS)
