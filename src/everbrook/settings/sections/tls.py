"""How connections are encrypted, if the server does that itself."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import EXPECTED, Choice, PositiveSeconds

PemPath = Annotated[str, Meta(extra={EXPECTED: "the path of a PEM file"})]


class TlsVersion(Choice):
    """Versions of TLS that may be the oldest."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class ClientCertificates(Choice):
    """Whether clients are asked for certificates."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TlsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How connections are encrypted, if the server does that itself. Changed files are read again by themselves."""

    cert_path: Annotated[
        PemPath,
        Meta(
            description=(
                "PEM file of the certificate, with those between it and its authority. Set together with "
                "`tls.key_path`, the server speaks `https` only. Empty: it speaks `http` only."
            )
        ),
    ] = ""
    key_path: Annotated[
        PemPath, Meta(description="PEM file of the private key of the certificate, without a passphrase.")
    ] = ""
    min_version: Annotated[TlsVersion, Meta(description="The oldest version of TLS that is spoken.")] = (
        TlsVersion.TLS_1_2
    )
    client_certificates: Annotated[
        ClientCertificates,
        Meta(
            description=(
                "Whether clients show a certificate of an authority in `tls.client_ca_path`: never, "
                "if they like, or always. Its common name is their identity."
            )
        ),
    ] = ClientCertificates.OFF
    client_ca_path: Annotated[
        PemPath, Meta(description="PEM file of the authorities whose client certificates are good.")
    ] = ""
    handshake_timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a client may take until its connection is encrypted.")
    ] = 10.0

    @property
    def configured(self) -> bool:
        """Whether the server speaks `https`."""
        return bool(self.cert_path)
