"""Which road each machine is offered, against a table of wheel tags, binaries and NVIDIA's documents."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from wizard.catalog import recipe_table, recipe_texts, runtime_facts, vllm_facts
from wizard.errors import UnknownNameError
from wizard.machine import Machine, detect
from wizard.recipe import Offer, Recipe, Tools, offer, pick, tools_of

BASE = Path("/home/op")
RECORDED = sorted(file.stem for file in (Path(__file__).parents[2] / "assets" / "machines").glob("*.json"))

# CUDA 13 needs driver 580, CUDA 12 needs 525; sm_70 ends with 0.19.1; CUDA 12.9 builds end with 0.31.0.
EXPECTED = {
    "a100x4": ("wheel", "0.33.0"),
    "b200x8": ("wheel", "0.33.0"),
    "dgx1": ("wheel", "0.19.1"),
    "gb10": ("wheel", "0.33.0"),
    "gh200": ("wheel", "0.33.0"),
    "h200": ("wheel", "0.33.0"),
    "h200x2": ("wheel", "0.33.0"),
    "hgx-h100x8": ("wheel", "0.33.0"),
    "no-driver": ("refuse", None),
    "no-gpu": ("refuse", None),
    "rtx4090x2": ("wheel", "0.33.0"),
    "rtx5090": ("wheel", "0.33.0"),
    "t4": ("wheel", "0.33.0"),
    "thor": ("wheel", "0.33.0"),
    "v100x10": ("wheel", "0.19.1"),
    "wsl-rtx4070": ("wheel", "0.33.0"),
}


def offered(machine: Machine, **tools: object) -> Offer:
    return offer(machine, Tools(**tools) if tools else tools_of(machine), base=BASE)


def changed(name: str, capability: str | None = None, **fields: object) -> Machine:
    machine = detect(name)
    if capability is not None:
        gpus = tuple(msgspec.structs.replace(gpu, compute_capability=capability) for gpu in machine.gpus)
        fields["gpus"] = gpus
    return msgspec.structs.replace(machine, **fields)


def every(recipe: Recipe) -> str:
    return "\n".join(line for step in recipe.steps for line in (*step.commands, step.check.command))


class TestEveryRecordedMachine:
    def test_the_table_names_them_all(self) -> None:
        assert set(RECORDED) <= set(EXPECTED)

    @pytest.mark.parametrize("name", RECORDED)
    def test_the_road_and_the_version(self, name: str) -> None:
        best = offered(detect(name)).recipes[0]
        assert (best.route, best.version) == EXPECTED[name]

    @pytest.mark.parametrize("name", RECORDED)
    def test_nothing_is_left_to_be_filled_in(self, name: str) -> None:
        for recipe in offered(detect(name)).recipes:
            assert not re.search(r"\{\w*\}", every(recipe))
            for step in recipe.steps:
                assert step.why
                assert step.check.command
                for pattern in (step.check.expect, step.check.reject):
                    re.compile(pattern)
                    # grep -E reads them too, and knows no such classes.
                    assert not re.search(r"\\[dswDSWb]", pattern)

    @pytest.mark.parametrize("name", RECORDED)
    def test_no_road_is_newer_than_driver_and_gpu_bear(self, name: str) -> None:
        machine = detect(name)
        branch = int((machine.driver or "0").split(".")[0])
        for recipe in offered(machine).recipes:
            if recipe.version is None:
                continue
            if recipe.route != "source":
                assert max(gpu.capability for gpu in machine.gpus) >= 75 or recipe.version == "0.19.1"
            if branch < 580 and recipe.route != "source":
                assert Version(recipe.version) <= Version("0.31.0")


class TestDrivers:
    def test_driver_535_on_an_a100_is_told_to_update_and_capped(self) -> None:
        found = offered(changed("a100x4", driver="535.183.06"))
        assert "580" in found.advice[0]
        assert {recipe.version for recipe in found.recipes} == {"0.31.0"}
        wheel = pick(found, "wheel")
        assert "https://wheels.vllm.ai/0.31.0/cu129" in every(wheel)
        assert "https://download.pytorch.org/whl/cu129" in every(wheel)
        assert next(step for step in wheel.steps if step.id == "torch").check.expect.startswith(r"^12\.")
        assert "vllm/vllm-openai:v0.31.0-cu129" in every(pick(found, "container"))

    def test_with_uv_torch_comes_by_its_own_option(self) -> None:
        wheel = pick(offered(changed("a100x4", driver="570.86"), uv=True), "wheel")
        assert "uv pip install --python /home/op/vllm-0.31.0/bin/python vllm==0.31.0" in every(wheel)
        assert "--torch-backend=cu129" in every(wheel)

    @pytest.mark.parametrize("driver", ["470.256.02", "450.80.02"])
    def test_one_that_no_build_bears_comes_first(self, driver: str) -> None:
        found = offered(changed("h200", driver=driver))
        assert found.recipes[0].route == "refuse"
        assert "580" in found.advice[0]

    def test_never_left_to_the_installer(self) -> None:
        """uv's automatic backend knows no compute capability: it would give a V100 CUDA 13."""
        for name in RECORDED:
            for recipe in offered(detect(name), uv=True).recipes:
                assert "torch-backend=auto" not in every(recipe)


class TestGenerations:
    @pytest.mark.parametrize("capability", ["6.1", "5.2"])
    def test_pascal_and_older_are_pointed_elsewhere(self, capability: str) -> None:
        found = offered(changed("rtx4090x2", capability))
        assert found.recipes[0].route == "refuse"
        assert "llama.cpp" in found.advice[0]

    def test_volta_on_any_driver_from_525_on(self) -> None:
        for driver in ("525.60.13", "535.261.03", "570.133", "580.126.20"):
            found = offered(changed("v100x10", driver=driver))
            assert [recipe.route for recipe in found.recipes] == ["wheel", "container", "source"]

    def test_ampere_of_a_jetson_gets_nvidias_image(self) -> None:
        orin = changed("thor", "8.7", driver="540.4.0")
        assert [recipe.route for recipe in offered(orin).recipes] == ["container"]
        assert "ghcr.io/nvidia-ai-iot/vllm:latest-jetson-orin" in every(offered(orin).recipes[0])
        later = offered(changed("thor", "8.7", driver="595.10")).recipes
        assert [(recipe.route, recipe.version) for recipe in later] == [("container", "0.33.0")]

    def test_thor_names_a_ptxas_that_knows_it(self) -> None:
        recipe = offered(detect("thor")).recipes[0]
        assert recipe.env == {"TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"}
        assert all(step.env == recipe.env for step in recipe.steps)

    def test_an_arm_host_with_a_turing_card_is_refused(self) -> None:
        assert offered(changed("gh200", "7.5")).recipes[0].route == "refuse"

    def test_every_capability_and_driver_finds_an_entry(self) -> None:
        for capability in (
            "3.5",
            "6.0",
            "7.0",
            "7.5",
            "8.0",
            "8.6",
            "8.9",
            "9.0",
            "10.3",
            "12.0",
            "12.1",
            "13.0",
        ):
            for driver in ("390.1", "524.99", "525.0", "579.99", "580.0", "620.1"):
                for name in ("h200", "gh200"):
                    assert offered(changed(name, capability, driver=driver)).recipes

    def test_the_newest_one_is_the_newest_the_tables_know(self) -> None:
        versions = {road.version for kind in recipe_table().machine for road in kind.road if road.version}
        assert max(versions, key=Version) == vllm_facts().newest


class TestTheWorldAround:
    def test_wsl_is_told_whose_driver_it_is(self) -> None:
        assert "Windows" in offered(detect("wsl-rtx4070")).advice[0]

    def test_an_engine_that_hands_out_gpus_comes_first(self) -> None:
        best = offered(detect("h200"), engine="podman").recipes[0]
        assert best.route == "container"
        assert "--device=nvidia.com/gpu=all" in every(best)
        assert "podman pull vllm/vllm-openai:v0.33.0" in every(best)

    def test_a_container_is_run_as_every_later_start(self) -> None:
        container = pick(offered(detect("h200")), "container")
        for word in ("--gpus=all", "--ipc=host", "/home/op/.cache/huggingface:/root/.cache/huggingface"):
            assert word in container.steps[-1].check.command

    def test_nvidias_image_holds_the_version_that_is_told(self) -> None:
        months = next(image.months for image in runtime_facts().image if "nvcr.io" in image.repository)
        for name in ("gb10", "thor"):
            image = next(recipe for recipe in offered(detect(name)).recipes if "nvcr.io" in every(recipe))
            month = re.search(r"nvcr\.io/nvidia/vllm:(\d\d\.\d\d)-py3", every(image))
            assert month is not None
            assert months[month[1]] == image.version
            assert "--ulimit=memlock=-1" in every(image)

    def test_an_old_c_library_leaves_the_container(self) -> None:
        machine = detect("h200")
        old = msgspec.structs.replace(machine.system, glibc="2.17")
        found = offered(msgspec.structs.replace(machine, system=old))
        assert [recipe.route for recipe in found.recipes] == ["container"]
        assert "2.28" in found.advice[-1]

    def test_a_model_that_needs_more_moves_the_source_build_to_the_front(self) -> None:
        found = offer(detect("v100x10"), Tools(), base=BASE, needs="0.20.0", needed_by="M")
        assert (found.recipes[0].route, found.recipes[0].version) == ("source", "0.21.0")

    def test_a_model_that_needs_more_than_there_is_says_so(self) -> None:
        found = offer(detect("v100x10"), Tools(), base=BASE, needs="0.24.0", needed_by="M")
        assert found.recipes[0].version == "0.19.1"
        assert (
            found.advice[0] == "M needs vLLM 0.24.0 or newer, and the newest one for this machine is 0.21.0."
        )

    def test_a_road_there_is_none_of(self) -> None:
        with pytest.raises(UnknownNameError, match="source"):
            pick(offered(detect("h200")), "source")

    def test_folders_with_blanks_are_quoted(self) -> None:
        wheel = offer(detect("h200"), Tools(), base=Path("/data/my models")).recipes[0]
        assert shlex.split(wheel.steps[0].commands[0])[-1] == "/data/my models/vllm-0.33.0"
        assert wheel.command == ("/data/my models/vllm-0.33.0/bin/vllm",)


class TestTheBuildOfTheGb10:
    """Every trap of the public report, and the order they lie in."""

    RECIPE = pick(offered(detect("gb10")), "source")
    NCCL = "/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2"

    def step(self, id: str) -> str:
        return "\n".join(next(step for step in self.RECIPE.steps if step.id == id).commands)

    def test_it_stands_beside_the_simpler_roads(self) -> None:
        assert [recipe.route for recipe in offered(detect("gb10")).recipes] == [
            "wheel",
            "container",
            "container",
            "source",
        ]
        assert "take the wheel unless" in self.RECIPE.why

    def test_torch(self) -> None:
        line = self.step("torch")
        assert "--pre" in line
        assert "https://download.pytorch.org/whl/nightly/cu130" in line
        assert line.endswith("--break-system-packages")

    def test_only_a_managed_python_is_overridden(self) -> None:
        free = pick(offered(changed("gb10", os="Ubuntu 22.04.5 LTS")), "source")
        assert "--break-system-packages" not in every(free)

    def test_nccl_is_loaded_first_in_every_later_call(self) -> None:
        ids = [step.id for step in self.RECIPE.steps]
        after = self.RECIPE.steps[ids.index("torch") + 1 :]
        assert all(step.env["LD_PRELOAD"] == self.NCCL for step in after)
        assert self.RECIPE.env["LD_PRELOAD"] == self.NCCL
        assert "LD_PRELOAD" not in self.RECIPE.steps[ids.index("torch")].env

    def test_the_compilation(self) -> None:
        line = self.step("build")
        assert f"sudo -E env LD_PRELOAD={self.NCCL} LD_LIBRARY_PATH=" in line
        for word in ("MAX_JOBS=20", "--no-deps", "--no-build-isolation", "pip3 install -e ."):
            assert word in line
        assert "libnuma-dev" in self.step("tools")

    def test_the_binary_interface(self) -> None:
        abi = next(step for step in self.RECIPE.steps if step.id == "abi").check
        assert "nm -D" in abi.command
        new = "                 U _ZN3c1013MessageLoggerC1ENS_14SourceLocationEib"
        old = "                 U _ZN3c1013MessageLoggerC1EPKciib"
        assert re.search(abi.expect, new)
        assert not re.search(abi.reject, new)
        assert re.search(abi.reject, old)

    def test_the_name_agents_ask_for(self) -> None:
        assert any("--served-model-name" in note for note in self.RECIPE.notes)


class TestTheBuildForTheV100:
    RECIPE = pick(offered(detect("v100x10")), "source")

    def step(self, id: str) -> str:
        return "\n".join(next(step for step in self.RECIPE.steps if step.id == id).commands)

    def test_torch(self) -> None:
        line = self.step("torch")
        assert "torch==2.11.0" in line
        assert "https://download.pytorch.org/whl/cu126" in line

    def test_the_compilation(self) -> None:
        line = self.step("build")
        for word in ("TORCH_CUDA_ARCH_LIST=7.0", "MAX_JOBS=20", "--no-build-isolation"):
            assert word in line

    def test_fewer_compilers_where_there_is_less_memory(self) -> None:
        small = msgspec.structs.replace(detect("v100x10").memory, total_mib=32 * 1024)
        recipe = pick(offered(changed("v100x10", memory=small)), "source")
        assert "MAX_JOBS=5" in every(recipe)

    def test_no_package_of_the_users_own_folder(self) -> None:
        assert self.RECIPE.env == {"PYTHONNOUSERSITE": "1"}
        assert all(step.env == {"PYTHONNOUSERSITE": "1"} for step in self.RECIPE.steps)

    def test_the_order(self) -> None:
        ids = [step.id for step in self.RECIPE.steps]
        assert ids.index("torch") < ids.index("requirements") < ids.index("build") < ids.index("nccl")
        assert ids.index("moe") < ids.index("build")

    def test_one_nccl(self) -> None:
        nccl = next(step for step in self.RECIPE.steps if step.id == "nccl").check
        wanted = "nvidia-cublas-cu12==12.6.4.1\nnvidia-nccl-cu12==2.28.9"
        assert re.search(nccl.expect, wanted, re.MULTILINE)
        assert not re.search(nccl.reject, wanted)
        assert re.search(nccl.reject, f"{wanted}\nnvidia-nccl-cu13==2.28.9")

    def test_the_driver_stays(self) -> None:
        """CUDA's package named cuda brings a driver along."""
        assert "apt-get install -y cuda-toolkit-12-6" in self.step("cuda")


def test_every_recipe_is_used() -> None:
    used = {road.recipe for kind in recipe_table().machine for road in kind.road}
    assert used == set(recipe_texts())
