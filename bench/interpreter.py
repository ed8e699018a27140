"""How the Python that runs the benchmark, and our servers in it, was built: a plain build is about 15 % slower."""

import sysconfig
from collections.abc import Mapping


def describe_build(variables: Mapping[str, object] | None = None) -> str:
    """Whether the build used profile-guided and link-time optimisation, as its makefile recorded it."""
    known = sysconfig.get_config_vars() if variables is None else variables
    flags = " ".join(str(known.get(name) or "") for name in ("CONFIG_ARGS", "PY_CFLAGS", "PY_CORE_CFLAGS"))
    guided = any(flag in flags for flag in ("--enable-optimizations", "-fprofile-use", "-fprofile-instr-use"))
    linked = any(flag in flags for flag in ("--with-lto", "-flto"))
    return (
        f"{'with' if guided else 'without'} profile-guided optimisation,"
        f" {'with' if linked else 'without'} link-time optimisation"
    )
