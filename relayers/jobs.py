"""What staff have done with many relayers at once, in the worker."""

from collections.abc import Sequence

from relayer_service.jobs.kinds import JobKind, Result
from relayers.tasks import check_soon


class CheckRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = "relayers.change_relayer"
    title = "Check relayers now"
    job_title = "Check {} now"
    explanation = "The nodes are asked for nonce and balance at once, without waiting for the next turn: {}."
    done = "To be checked at once"
    left_alone = "being checked"
    # The log has what a check finds, in the name of the health check.
    is_recorded = False

    def run(self, keys: Sequence[int]) -> Result:
        return Result(check_soon(keys))
