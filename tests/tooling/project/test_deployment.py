"""What people deploy with: the units of systemd are valid and harden the service, and the profiles load."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from everbrook.settings import load_settings
from everbrook.settings.sections.observe import AuditTarget, LogFormat

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "deploy" / "systemd"
HARDENING = {
    "User": "everbrook",
    "NoNewPrivileges": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "yes",
    "ProtectSystem": "strict",
    "CapabilityBoundingSet": "",
}


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name)
    return parser


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in UNITS.iterdir():
        # The program need not be installed here.
        text = path.read_text().replace("/opt/everbrook/bin/everbrook", "/bin/true")
        (tmp_path / path.name).write_text(text)
    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_may_do_as_little_as_it_needs() -> None:
    service = unit("everbrook.service")["Service"]
    assert {name: service[name] for name in HARDENING} == HARDENING


def test_the_user_of_the_service_is_one_that_files_of_secrets_can_belong_to() -> None:
    service, told = unit("everbrook.service")["Service"], (ROOT / "docs" / "operations.md").read_text()
    assert "DynamicUser" not in service
    assert re.search(rf"useradd --system .* {service['User']}\n", told)
    assert f"runuser -u {service['User']} -- /opt/everbrook/bin/everbrook apikey create" in told


def test_the_service_tells_systemd_of_itself_and_is_told_to_reload() -> None:
    service = unit("everbrook.service")["Service"]
    assert (service["Type"], service["ExecReload"]) == ("notify", "/bin/kill -HUP $MAINPID")
    assert int(service["WatchdogSec"]) > 0


def test_the_service_is_started_again_after_its_storage_failed() -> None:
    service = unit("everbrook.service")["Service"]
    assert service["Restart"] in {"on-failure", "always"}
    assert not {"SuccessExitStatus", "RestartPreventExitStatus"} & service.keys()


@pytest.mark.parametrize("profile", ["default", "dev", "prod"])
def test_every_profile_loads(profile: str) -> None:
    load_settings(profile=profile, folder=ROOT, environ={})


def test_production_is_encrypted_guarded_limited_and_written_down() -> None:
    settings = load_settings(profile="prod", folder=ROOT, environ={})
    assert (settings.tls.configured, settings.auth.configured) == (True, True)
    assert settings.limits.requests_per_sec_per_identity > 0
    assert (settings.log.format, settings.audit.to) == (LogFormat.JSON, AuditTarget.FILE)
