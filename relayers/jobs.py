"""Jobs with relayers."""

from collections.abc import Sequence

from relayer_service.jobs.kinds import JobKind, Result
from relayer_service.storage.selections import Selection
from relayers.states import set_all_paused


class PauseRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = "relayers.change_relayer"
    title = "Pause relayers"
    job_title = "Pause {}"
    explanation = "Pauses {}."
    done = "Paused"
    left_alone = "already paused"
    paused = True

    def run(self, keys: Sequence[int]) -> Result:
        return Result(set_all_paused(Selection.from_keys(keys), self.paused, self.reason))


class ResumeRelayers(PauseRelayers):
    title = "Resume relayers"
    job_title = "Resume {}"
    explanation = "Resumes {}."
    done = "Resumed"
    left_alone = "not paused"
    paused = False
