"""docker-compose.yml: Compose takes it, and each profile starts what it says."""

import shutil
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "docker-compose.yml"
PROFILES = {
    (): {"server", "envoy"},
    ("sync",): {"server", "envoy", "postgres", "pipeline"},
    ("dev",): {"server", "envoy", "postgres", "pipeline", "heartbeat", "adminer"},
    ("sync", "dev"): {"server", "envoy", "postgres", "pipeline", "heartbeat", "adminer"},
}
PORTS = {"4437:4437", "8080:8080", "54321:5432", "8081:8080"}


def compose() -> list[str]:
    """Find Compose, as a plug-in of Docker or by itself, or skip the test. The first version did not heed profiles."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
        if said.returncode == 0 and not said.stdout.startswith("1."):
            return command
    pytest.skip("there is no Docker Compose")


def config(*arguments: str, profiles: tuple[str, ...]) -> str:
    chosen = [flag for profile in profiles for flag in ("--profile", profile)]
    command = [*compose(), "--file", str(FILE), *chosen, "config", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("profiles", PROFILES, ids="+".join)
def test_a_profile_starts_its_services(profiles: tuple[str, ...]) -> None:
    assert set(config("--services", profiles=profiles).split()) == PROFILES[profiles]


def test_every_part_finds_the_others_by_its_variables() -> None:
    whole = config(profiles=("sync", "dev"))
    assert whole.count("DS_SERVER_URL: http://server:4437") == 3
    assert whole.count("POSTGRES_URL: postgresql://postgres:password@postgres:5432/durable_streams") == 2


def test_the_ports_are_those_of_the_map_and_open_to_this_machine_only() -> None:
    lines = [line.strip() for line in FILE.read_text().splitlines() if line.strip().startswith("ports:")]
    assert {line.removeprefix('ports: ["127.0.0.1:').removesuffix('"]') for line in lines} == PORTS
