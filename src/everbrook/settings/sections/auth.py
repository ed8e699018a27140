"""Who may use the server: how identities are proven, and what they may do."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import EXPECTED, FilePath, PositiveSeconds, Seconds

ANY_AUDIENCE = "*"

KeySet = Annotated[
    str, Meta(extra={EXPECTED: "the path of a file, an https URL, or an http URL of a loopback address"})
]
Claim = Annotated[str, Meta(extra={EXPECTED: "a text of one line"})]
Names = Annotated[str, Meta(extra={EXPECTED: "names of claims, separated by commas"})]
Algorithms = Annotated[
    str, Meta(extra={EXPECTED: "names of signature algorithms such as 'RS256,ES256', separated by commas"})
]
Scopes = Annotated[
    str, Meta(extra={EXPECTED: "scopes such as 'read+append:/v1/stream/{sub}', separated by commas or spaces"})
]
Prefixes = Annotated[str, Meta(extra={EXPECTED: "paths such as '/v1/stream/public', separated by commas or spaces"})]
Networks = Annotated[
    str, Meta(extra={EXPECTED: "addresses or networks such as '127.0.0.1,10.0.0.0/8', separated by commas"})
]
HeaderName = Annotated[str, Meta(extra={EXPECTED: "the name of a header"})]


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may use the server. Everybody may do everything until one of these is set."""

    jwks: Annotated[
        KeySet,
        Meta(
            description=(
                "The key set (JWKS) that verifies tokens (JWT): a file, or the URL of an issuer. Needs "
                "`auth.issuer` and `auth.audience`. Empty: tokens are not accepted."
            )
        ),
    ] = ""
    issuer: Annotated[Claim, Meta(description="The required issuer of a token, its claim `iss`.")] = ""
    audience: Annotated[
        Claim,
        Meta(description="The required audience of a token, in its claim `aud`. `*`: any."),
    ] = ""
    algorithms: Annotated[
        Algorithms,
        Meta(
            description=(
                "Signature algorithms that a token may have. `HS256`, `HS384` and `HS512` use a secret shared "
                "with the issuer: the key set must be a file, and other algorithms can't be listed with them."
            )
        ),
    ] = "RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA"
    leeway_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "Tolerated difference between the clocks of issuer and server: tokens stay valid for this long "
                "after they expire."
            )
        ),
    ] = 10.0
    jwks_refresh_secs: Annotated[
        PositiveSeconds,
        Meta(
            description=(
                "How often a key set from a URL is fetched. If that fails, the last one stays in use. A token "
                "with an unknown key triggers a fetch at once, but at most once a minute."
            )
        ),
    ] = 300.0
    scope_claim: Annotated[
        Names,
        Meta(
            description=(
                "Claims that may hold the scopes of a token, as a text or a list. The first one that the token "
                "has counts."
            )
        ),
    ] = "scope,scopes,permissions"
    default_scopes: Annotated[
        Scopes,
        Meta(
            description=(
                "Scopes of identities that come without any: tokens without such a claim, identities from a "
                "proxy, client certificates. `{sub}` stands for the subject."
            )
        ),
    ] = ""
    public_read: Annotated[
        Prefixes, Meta(description="Paths that anyone may read without an identity, with everything below them.")
    ] = ""
    trusted_proxies: Annotated[
        Networks,
        Meta(
            description=(
                "Addresses of proxies that are trusted to state an identity in `auth.identity_header`. From other "
                "clients that header is ignored. Needs `auth.default_scopes`."
            )
        ),
    ] = ""
    identity_header: Annotated[
        HeaderName, Meta(description="The header in which a trusted proxy, such as Envoy, states the identity.")
    ] = "X-JWT-Sub"
    api_keys_path: Annotated[
        FilePath,
        Meta(description="The file of API keys that `everbrook apikey` writes. Empty: API keys are not accepted."),
    ] = ""
    url_keys_path: Annotated[
        FilePath,
        Meta(
            description="The file of keys with which `everbrook sign` signs URLs. Empty: signed URLs are not accepted."
        ),
    ] = ""

    @property
    def configured(self) -> bool:
        """Whether there is a policy."""
        return bool(
            self.jwks
            or self.api_keys_path
            or self.url_keys_path
            or self.trusted_proxies
            or self.default_scopes
            or self.public_read
        )
