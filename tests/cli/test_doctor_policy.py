"""``everbrook doctor`` on certificates, keys and policy: what anyone may do, and what a server could not use."""

import datetime as dt
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from everbrook.server.auth.key_pair import make_pair, save_pair
from tests.cli.conftest import Run
from tests.cli.test_doctor import findings

pytestmark = pytest.mark.usefixtures("any_port")


def told(run: Run, check: str) -> tuple[str, str]:
    return findings(run("doctor", "--json"))[check]


def write_certificate(folder: Path, days: float) -> None:
    """Make a certificate that is good for so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - dt.timedelta(days=9)).not_valid_after(now + dt.timedelta(days))
    certificate = made.sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem, raw = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, raw, serialization.NoEncryption()))


@pytest.fixture
def encrypted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_TLS__CERT_PATH", str(folder / "cert.pem"))
    monkeypatch.setenv("DS_TLS__KEY_PATH", str(folder / "key.pem"))


@pytest.mark.parametrize("days, state", [(-1, "fail"), (3, "warn"), (90, "ok")])
def test_the_end_of_a_certificate_is_told_in_time(
    run: Run, folder: Path, encrypted: None, days: float, state: str
) -> None:
    write_certificate(folder, days)
    assert told(run, "certificate")[0] == state


def test_a_key_of_another_certificate_is_a_failure(run: Run, folder: Path, encrypted: None) -> None:
    write_certificate(folder, 90)
    key = (folder / "key.pem").read_bytes()
    write_certificate(folder, 90)
    (folder / "key.pem").write_bytes(key)
    state, message = told(run, "certificate")
    assert (state, "is not that of the certificate" in message) == ("fail", True)


def test_plain_text_for_others_is_a_warning(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVER__HOST", "0.0.0.0")  # noqa: S104 - nothing listens on it
    assert told(run, "certificate")[0] == "warn"


def test_what_anyone_can_do_is_said_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "anyone on this machine can read, write and delete everything" in told(run, "policy")[1]
    monkeypatch.setenv("DS_SERVER__HOST", "0.0.0.0")  # noqa: S104 - nothing listens on it
    state, message = told(run, "policy")
    assert (state, message.startswith("anybody who reaches 0.0.0.0 may")) == ("warn", True)


def test_a_policy_is_summed_up(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("apikey", "create", "--file", "keys.json", "--scope", "read:/v1/stream/a").code == 0
    monkeypatch.setenv("DS_AUTH__API_KEYS_PATH", "keys.json")
    monkeypatch.setenv("DS_AUTH__PUBLIC_READ", "/v1/stream/news")
    state, message = told(run, "policy")
    assert (state, message.startswith("anyone can read below /v1/stream/news; others are known by API keys")) == (
        "ok",
        True,
    )
    assert told(run, "API keys") == ("ok", "keys.json has 1")
    (folder / "keys.json").chmod(0o644)
    assert told(run, "API keys") == ("fail", "keys.json: other users can read it: chmod 600 keys.json")


def test_a_key_set_that_cannot_be_had_is_a_failure(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"issuer": "us", "audience": "them"}.items():
        monkeypatch.setenv(f"DS_AUTH__{name.upper()}", value)
    monkeypatch.setenv("DS_AUTH__JWKS", "http://127.0.0.1:1/jwks.json?secret=s")
    state, message = told(run, "key set")
    assert (state, message.startswith("http://127.0.0.1:1/jwks.json: ")) == ("fail", True)
    pair = make_pair()
    save_pair(pair, folder)
    (folder / "set.json").write_text(json.dumps({"keys": []}))
    monkeypatch.setenv("DS_AUTH__JWKS", str(folder / "set.json"))
    assert told(run, "key set")[0] == "fail"
