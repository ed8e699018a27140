"""Certificates of the tests, as files: authorities, and what they sign."""

import datetime as dt
import ipaddress
import shutil
import socket
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
_DAY = dt.timedelta(days=1)


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    cert: Path
    key: Path

    def put_at(self, other: "Pair") -> None:
        """Replace what is at another place, one file after the other."""
        for mine, theirs in zip(self, other, strict=True):
            shutil.copy(mine, theirs.with_suffix(".new"))
            theirs.with_suffix(".new").replace(theirs)


class Authority:
    """An authority, whose certificate is the file `ca`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        builder = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, *names: str, file: str = "leaf", days: int = 1, passphrase: bytes | None = None) -> Pair:
        """Sign a certificate with these common names, for this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
        builder = _builder(named(*names), self._name, key, days).add_extension(alternatives, critical=False)
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        pair.cert.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        pair.key.write_bytes(_key_pem(key, passphrase))
        return pair

    def client_context(self, shown: Pair | None = None) -> ssl.SSLContext:
        """Give what a client needs that trusts this authority, and shows a certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if shown is not None:
            context.load_cert_chain(shown.cert, shown.key)
        return context


def connected(address: tuple[str, int], context: ssl.SSLContext) -> ssl.SSLSocket:
    """Open an encrypted connection."""
    plain = socket.create_connection(address, timeout=10)
    try:
        return context.wrap_socket(plain, server_hostname=HOST)
    except BaseException:
        plain.close()
        raise


def shown(address: tuple[str, int], context: ssl.SSLContext) -> int:
    """Give the serial number of the certificate that a server shows."""
    with connected(address, context) as wire:
        certificate = wire.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.cert.read_bytes()).serial_number


def named(*names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * _DAY)
        .not_valid_after(now + days * _DAY)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        protection = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
