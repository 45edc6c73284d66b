"""The models of a process: the default model, and those of the registry that datasets name. Each is loaded on first use.

    name, fingerprint --get_folder--> ModelFolder --get_classifier--> Classifier

The folder on disk decides: it is looked at again about once a second, so that a model that is added, replaced or removed
takes effect without a restart.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.contracts.defaults import MAX_LOADED_MODELS
from service.errors import LabelwatchError, MissingModelError, ModelError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.inference.providers import CPU_ONLY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.inference.model.registry import ModelRegistry

    FolderSignature = tuple[tuple[str, int, int, int], ...]  # path, size, time of change and inode of each file

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S = 1.0
RETRY_INTERVAL_S = 60.0  # a folder that could not be used is read again: memory, descriptors or a volume may be back
SHOWN_FINGERPRINT_CHARS = 12


@dataclass(slots=True)
class _RegistryEntry:
    """What a folder of the registry contained when it was last read: a model, or the problem with it."""

    signature: FolderSignature
    read_at: float
    checked_at: float
    folder: ModelFolder | None = None
    problem: str = ""


class ModelPool:
    """Any thread may use it. At most `max_loaded` models are in memory beside the default one, which is never closed.

    Closing drops the pool's reference: a batch that runs keeps its classifier until it ends.
    """

    def __init__(
        self,
        default: ModelFolder,
        registry: ModelRegistry,
        *,
        classifier: Classifier | None = None,
        threads: int = 1,
        providers: Sequence[str] = CPU_ONLY,
        max_loaded: int = MAX_LOADED_MODELS,
        on_load: Callable[[Classifier], None] | None = None,
        on_close: Callable[[Classifier], None] | None = None,
        check_interval_s: float = CHECK_INTERVAL_S,
        retry_interval_s: float = RETRY_INTERVAL_S,
    ) -> None:
        """`classifier`: that of the default model, if it is loaded already."""
        self.default = default
        self._registry = registry
        self._threads = threads
        self._providers = tuple(providers)
        self._max_loaded = max_loaded
        self._on_load = on_load
        self._on_close = on_close
        self._check_interval_s = check_interval_s
        self._retry_interval_s = retry_interval_s
        self._entries: dict[str, _RegistryEntry] = {}
        self._lock = threading.Lock()  # never held while a folder is read or a model loaded
        self._read_lock = threading.Lock()  # of folders: .2 s for the default model
        self._load_lock = threading.Lock()  # of models: 1.3 s
        self._default_classifier = classifier
        self._loaded: OrderedDict[ModelFolder, Classifier] = OrderedDict()  # least recently used first

    # -- folders ---------------------------------------------------------------------------------------------------

    def get_folder(self, name: str | None, fingerprint: str | None = None) -> ModelFolder:
        """The folder of a model of the registry, or of the default model for None.

        The same object as long as its files are the same. Raises `MissingModelError` if the model is not there, can't
        be used, or has another fingerprint than the given one.
        """
        if name is None:
            folder = self.default
        else:
            entry = self._check_entry(name)
            checked = entry.folder
            if checked is None:
                raise MissingModelError(entry.problem)
            folder = checked
        if fingerprint is not None and fingerprint != folder.fingerprint:
            raise MissingModelError(
                f"{folder.path} has the fingerprint {shorten_fingerprint(folder.fingerprint)} (precision {folder.precision}), "
                f"expected is {shorten_fingerprint(fingerprint)}: put the expected model there, or set `model` again to "
                "accept this one"
            )
        return folder

    def list_names(self) -> list[str]:
        """The models of the registry, and those that are part of labelwatch beside the default one."""
        return self._registry.list_choices()

    def _check_entry(self, name: str) -> _RegistryEntry:
        entry, now = self._entries.get(name), time.monotonic()
        if entry is not None and now - entry.checked_at < self._check_interval_s:
            return entry
        signature = self._read_signature(name)
        if entry is None or self._is_outdated(entry, signature):
            with self._read_lock:
                entry = self._entries.get(name)  # another thread may have read the folder meanwhile
                if entry is None or self._is_outdated(entry, signature):
                    entry = self._replace_entry(name, signature)
        entry.checked_at = now
        return entry

    def _is_outdated(self, entry: _RegistryEntry, signature: FolderSignature) -> bool:
        if entry.signature != signature:
            return True
        return entry.folder is None and time.monotonic() - entry.read_at >= self._retry_interval_s

    def _replace_entry(self, name: str, signature: FolderSignature) -> _RegistryEntry:
        now = time.monotonic()
        before, entry = self._entries.get(name), _RegistryEntry(signature, read_at=now, checked_at=now)
        try:
            path = self._registry.resolve(name)
        except LabelwatchError as error:
            entry.problem = (
                f"{error}; add it (`labelwatch model add`), or set another `model` (null: the default model)"
            )
        else:
            try:
                entry.folder = ModelFolder.load(path, precision=self.default.precision)
            except (LabelwatchError, OSError) as error:
                entry.problem = f"{error}; or set another `model`"
        self._entries[name] = entry
        if before is not None and before.folder is not None:
            self._close(before.folder, "its folder has changed")
        return entry

    def _read_signature(self, name: str) -> FolderSignature:
        try:
            files = [(path, path.stat()) for path in sorted(self._registry.get_path(name).rglob("*"))]
        except (LabelwatchError, OSError):  # a name that no model can have, or a folder that is being removed
            return ()
        return tuple((str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in files)

    # -- classifiers -----------------------------------------------------------------------------------------------

    def find_classifier(self, folder: ModelFolder) -> Classifier | None:
        """The classifier of the folder if it is loaded."""
        if folder is self.default:
            return self._default_classifier
        with self._lock:
            classifier = self._loaded.get(folder)
            if classifier is not None:
                self._loaded.move_to_end(folder)
            return classifier

    def get_classifier(self, folder: ModelFolder) -> Classifier:
        """The classifier of a folder that `get_folder` returned; loads it if necessary, which may take seconds.

        Raises `MissingModelError` if the folder has changed since, or its graph can't be used.
        """
        classifier = self.find_classifier(folder)
        if classifier is not None:
            return classifier
        with self._load_lock:
            classifier = self.find_classifier(folder)  # another thread may have loaded it meanwhile
            return self._load(folder) if classifier is None else classifier

    def _load(self, folder: ModelFolder) -> Classifier:
        is_default = folder is self.default
        classifier = (
            Classifier(folder, threads=self._threads, providers=self._providers)
            if is_default
            else self._load_unchanged(folder)
        )
        logger.info(
            "model %s is loaded: %d classes, fingerprint %s",
            folder.path.name if folder.path.parent == self._registry.path else folder.name,
            len(folder.labels),
            shorten_fingerprint(folder.fingerprint),
        )
        if self._on_load is not None:
            self._on_load(classifier)
        if is_default:
            self._default_classifier = classifier
            return classifier
        with self._lock:
            self._loaded[folder] = classifier
        if self._entries[folder.path.name].folder is not folder:  # another thread has read it again meanwhile
            self._close(folder, "its folder has changed")
        self._close_least_recently_used()
        return classifier

    def _load_unchanged(self, folder: ModelFolder) -> Classifier:
        name = folder.path.name
        entry = self._entries[name]
        try:
            if entry.folder is not folder:
                raise ModelError(f"{folder.path} has changed")
            classifier = Classifier(folder, threads=self._threads, providers=self._providers)
            if self._read_signature(name) != entry.signature:
                raise ModelError(f"{folder.path} has changed while it was read")
        except (LabelwatchError, OSError) as error:
            if entry.folder is folder:  # until the folder changes, or for a while
                entry.problem, entry.read_at = f"{error}; or set another `model`", time.monotonic()
                entry.folder = None  # last: other threads read the problem once there is no folder
            raise MissingModelError(str(error)) from error
        return classifier

    def _close_least_recently_used(self) -> None:
        with self._lock:
            surplus = list(self._loaded)[: max(0, len(self._loaded) - self._max_loaded)]
        for folder in surplus:
            self._close(folder, f"{self._max_loaded} others were used since")

    def _close(self, folder: ModelFolder, reason: str) -> None:
        with self._lock:
            classifier = self._loaded.pop(folder, None)
        if classifier is not None:
            logger.info("model %s is closed: %s", folder.path.name, reason)
            if self._on_close is not None:
                self._on_close(classifier)


def shorten_fingerprint(fingerprint: str) -> str:
    """As messages show it: long enough to tell contents apart."""
    return fingerprint[:SHOWN_FINGERPRINT_CHARS]
