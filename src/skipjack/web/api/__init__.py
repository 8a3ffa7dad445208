"""The HTTP API: its routes, its OpenAPI file, and metrics for Prometheus."""

from skipjack.web.api.openapi import openapi
from skipjack.web.api.server import api_routes

__all__ = ["api_routes", "openapi"]
