from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.harness import (
    WAIT_TIMEOUT_S,
    BrowserHarness,
    ServiceProcess,
    find_browser_arguments,
    find_chromium,
    run_service,
)
from tests.support.folder_scope import FolderScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


scope = FolderScope(__file__)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    scope.close_if_last(nextitem)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> ServiceProcess:
    return scope.enter_context(run_service(tmp_path_factory.mktemp("service")))


@pytest.fixture(scope="session")
def browser() -> Browser:
    expect.set_options(timeout=1000 * WAIT_TIMEOUT_S)
    tool = scope.enter_context(sync_playwright())
    return scope.enter_context(tool.chromium.launch(executable_path=find_chromium(), args=find_browser_arguments()))


@pytest.fixture
def harness(browser: Browser, service: ServiceProcess) -> Iterator[BrowserHarness]:
    browser_harness = BrowserHarness(browser, service)
    yield browser_harness
    browser_harness.close()
