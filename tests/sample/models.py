from typing import Any

from django.db import models

from relayer_service.storage.leases import Leased
from relayer_service.storage.resources import Resource


class Item(Resource):
    """The smallest resource that has what all resources have."""

    name = models.TextField()

    def audited(self) -> dict[str, Any]:
        return {"name": self.name}


class Job(Leased):
    """A piece of work that a worker must do at least once."""

    done = models.IntegerField(default=0)
    seconds = models.FloatField(default=0)


class SignerUser(models.Model):
    """Something that uses a signer, as relayers do."""

    name = models.TextField()
    signer = models.ForeignKey("signers.Signer", on_delete=models.PROTECT)

    def __str__(self) -> str:
        return self.name
