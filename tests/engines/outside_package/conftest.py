"""All that an engine's tests load of the wheel."""

pytest_plugins = ("jupyter_smx.testing.pytest_plugin",)
