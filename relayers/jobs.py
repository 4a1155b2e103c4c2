"""Jobs that staff start on many relayers, run by the worker."""

from collections.abc import Sequence

from relayer_service.jobs.kinds import JobKind, Result
from relayers.tasks import check_soon


class CheckRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = "relayers.change_relayer"
    title = "Check relayers now"
    job_title = "Check {} now"
    explanation = "Nonce and balance are read from the nodes now, without waiting for the next check: {}."
    done = "Queued for a check"
    left_alone = "being checked"
    # The health check records what it changes.
    is_recorded = False

    def run(self, keys: Sequence[int]) -> Result:
        return Result(check_soon(keys))
