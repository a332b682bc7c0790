"""SciPy's sparse arrays; where SciPy is missing the error names the extra."""

from sas_gym._arguments import require_extra

require_extra("planning", "scipy")

from scipy import sparse  # noqa: E402  # after the check, whose message is clearer

__all__ = ["sparse"]
