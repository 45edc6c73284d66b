from __future__ import annotations

import pytest

from tests.deploy import monitored_service as setup
from tests.support.folder_scope import FolderScope

scope = FolderScope(__file__)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    scope.close_if_last(nextitem)


@pytest.fixture(scope="session")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> setup.MonitoredService:
    """The service with a sample stream, and a Prometheus that scrapes it."""
    return scope.enter_context(setup.run_monitored_service(tmp_path_factory.mktemp("monitored")))
