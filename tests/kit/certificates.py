"""Certificates for every test that speaks TLS: authorities, and what they sign, as files.

They follow RFC 5280 (§4.2.1: key identifiers, key usage, basic constraints), because clients may be strict about it:
Python is by default from 3.13 on, and the contexts made here are on every version.
"""

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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "127.0.0.1"
PATIENCE_SECS = 60
_DAY = dt.timedelta(days=1)
_NO_USAGE = {
    "digital_signature": False,
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "key_cert_sign": False,
    "crl_sign": False,
    "encipher_only": False,
    "decipher_only": False,
}


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    cert: Path
    key: Path

    def put_at(self, other: "Pair") -> None:
        """Replace the files of another pair, one after the other."""
        for mine, theirs in zip(self, other, strict=True):
            shutil.copy(mine, theirs.with_suffix(".new"))
            theirs.with_suffix(".new").replace(theirs)


class Authority:
    """A certificate authority, whose own certificate is the file `ca`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        builder = (
            self._certificate(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True, "crl_sign": True}), critical=True)
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(
        self,
        *names: str,
        hosts: tuple[str, ...] = (HOST,),
        file: str = "leaf",
        days: int = 1,
        passphrase: bytes | None = None,
    ) -> Pair:
        """Sign a certificate with these common names, for servers of these hosts and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._certificate(named(*names), key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**_NO_USAGE | {"digital_signature": True}), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        )
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        pair.cert.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        pair.key.write_bytes(_key_pem(key, passphrase))
        return pair

    def client_context(self, shown: Pair | None = None) -> ssl.SSLContext:
        """Give the context of a client that trusts this authority alone, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if shown is not None:
            context.load_cert_chain(shown.cert, shown.key)
        return context

    def server_context(self, *hosts: str, days: int = 1) -> ssl.SSLContext:
        """Give the context of a server with a certificate for these hosts, valid for so many days."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(hosts[0], hosts=hosts, days=days))
        return context

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def connected(address: tuple[str, int], context: ssl.SSLContext) -> ssl.SSLSocket:
    """Open an encrypted connection."""
    plain = socket.create_connection(address, timeout=PATIENCE_SECS)
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


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        protection = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
