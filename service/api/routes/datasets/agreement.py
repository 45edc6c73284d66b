"""How far the reviewers of a dataset agree."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.threads import run_in_thread
from service.datasets.registry import check_dataset_exists
from service.review.queue.figures.reviewer_agreement import AgreementReport

router = APIRouter(tags=["datasets"])


@router.get("/v1/datasets/{name}/agreement", summary="Agreement of reviewers")
async def agreement(name: DatasetPath, backend: BackendDep) -> AgreementReport:
    """Cohen's kappa over words and F1 over exact spans, for each pair of reviewers and overall, with 95 % intervals.

    The intervals are of a bootstrap over items.
    """
    check_dataset_exists(name, backend.state_view.list_names())
    return await run_in_thread(backend.queue.build_agreement_report, name)
