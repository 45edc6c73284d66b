from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.desk import WAIT, Desk, Service, chromium, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as made:
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=1000 * WAIT)
    # Root may not use the browser's sandbox; what it loads here is our own page only.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as tool:
        made = tool.chromium.launch(executable_path=chromium(), args=arguments)
        yield made
        made.close()


@pytest.fixture
def desk(browser: Browser, service: Service) -> Iterator[Desk]:
    made = Desk(browser, service)
    yield made
    made.close()
