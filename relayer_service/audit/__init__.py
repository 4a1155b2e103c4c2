"""The audit log: who changed which fields of a resource, recorded explicitly in the transaction of the change."""
