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
    """Who may use the server. Nothing is asked of anybody until one of these is set."""

    jwks: Annotated[
        KeySet,
        Meta(
            description=(
                "The key set (JWKS) by which tokens (JWT) are verified: a file, or the URL of an issuer. "
                "Needs `auth.issuer` and `auth.audience`. Empty: no tokens are taken."
            )
        ),
    ] = ""
    issuer: Annotated[Claim, Meta(description="Who must have issued a token: its claim `iss`.")] = ""
    audience: Annotated[
        Claim,
        Meta(description="For whom a token must be: one of its claim `aud`. `*`: it is not looked at."),
    ] = ""
    algorithms: Annotated[
        Algorithms,
        Meta(
            description=(
                "Algorithms that a token may be signed with. `HS256`, `HS384` and `HS512` share a secret with the "
                "issuer: only from a file, and beside no others."
            )
        ),
    ] = "RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA"
    leeway_secs: Annotated[
        Seconds,
        Meta(description="By how much the clocks of issuer and server may differ: a token is good for so much longer."),
    ] = 10.0
    jwks_refresh_secs: Annotated[
        PositiveSeconds,
        Meta(
            description=(
                "After how long a key set from a URL is fetched again. While that fails, the one that is known goes "
                "on being used. A key that is not in it is asked for at once, but at most once a minute."
            )
        ),
    ] = 300.0
    scope_claim: Annotated[
        Names,
        Meta(description="Claims that may hold the scopes of a token, as a text or a list: the first that it has."),
    ] = "scope,scopes,permissions"
    default_scopes: Annotated[
        Scopes,
        Meta(
            description=(
                "What those may do whose identity comes without scopes: tokens that have no such claim, identities "
                "from a proxy, client certificates. `{sub}` stands for their subject."
            )
        ),
    ] = ""
    public_read: Annotated[
        Prefixes, Meta(description="Paths that everybody may read, and all below them, without any identity.")
    ] = ""
    trusted_proxies: Annotated[
        Networks,
        Meta(
            description=(
                "Addresses of proxies whose word for an identity is taken, from `auth.identity_header`. "
                "From anybody else that header means nothing. Needs `auth.default_scopes`."
            )
        ),
    ] = ""
    identity_header: Annotated[
        HeaderName, Meta(description="The header in which a trusted proxy says who asks, as Envoy does.")
    ] = "X-JWT-Sub"
    api_keys_path: Annotated[
        FilePath,
        Meta(description="The file of API keys that `everbrook apikey` writes. Empty: no API keys are taken."),
    ] = ""
    url_keys_path: Annotated[
        FilePath,
        Meta(description="The file of keys that `everbrook sign` signs URLs with. Empty: no signed URLs are taken."),
    ] = ""

    @property
    def configured(self) -> bool:
        """Whether anything is asked of anybody."""
        return bool(
            self.jwks
            or self.api_keys_path
            or self.url_keys_path
            or self.trusted_proxies
            or self.default_scopes
            or self.public_read
        )
