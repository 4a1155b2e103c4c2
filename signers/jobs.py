"""Jobs with signers."""

from collections.abc import Sequence

from relayer_service.jobs.kinds import JobKind, Result
from signers import signing
from signers.backends.base import SignerError
from signers.models import Signer


class VerifySigners(JobKind):
    model_label = "signers.Signer"
    permission = "signers.change_signer"
    title = "Verify signers"
    job_title = "Verify {}"
    explanation = "Makes {} sign a fixed text to verify them, and saves their addresses."
    done = "Verified"
    skip_reason = "deleted in the meantime"
    # Each may be slow.
    batch_size = 1
    in_transaction = False

    def run(self, keys: Sequence[int]) -> Result:
        failures = []
        signers = list(Signer.objects.filter(pk__in=keys).order_by("pk"))
        for signer in signers:
            try:
                signing.verify(signer)
            except SignerError as error:
                failures.append((signer.identifier, explained(error)))
        return Result(len(signers) - len(failures), failures)


def explained(error: SignerError) -> str:
    return str(error) if error.permanent else f"{error} Try again later."
