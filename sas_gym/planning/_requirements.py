"""Names the extra to install where this package's dependencies are missing."""

from sas_gym._arguments import require_extra

require_extra("planning", "scipy")
