"""What is listed and created. Another endpoint is one more `Resource` here and its plain form in `stock/`."""

from dataclasses import dataclass

PER_PAGE = 10


@dataclass(frozen=True)
class Resource:
    """A list and, if there is one, its create, with the SQL that a bare function would send for them."""

    name: str
    # The same for all servers.
    path: str
    # The limit's queries. The page's columns are named as the members of the answer.
    page: str
    count: str
    # Columns of the page that are JSON text already; with them, what is NULL is left out of the answer.
    json_text: tuple[str, ...] = ()
    # The body that creates one; `NNN` becomes another number each time.
    new: str = ""
    insert: str = ""
    # Statements that remove what that created.
    remove_new: tuple[str, ...] = ()

    def page_path(self, number: int) -> str:
        return f"{self.path}?page={number}&per_page={PER_PAGE}"


SIGNERS = Resource(
    name="signers",
    path="/api/v1/signers",
    page="""
        SELECT identifier AS id, CASE type WHEN 'plain' THEN 'local' ELSE type END AS type, config
        FROM signers_signer ORDER BY sequence LIMIT %(limit)s OFFSET %(offset)s
    """,
    count="SELECT count(*) FROM signers_signer",
    insert="""
        INSERT INTO signers_signer (identifier, type, config, secrets, created_at, verified_identity)
        VALUES (%(id)s, %(type)s, %(config)s, '1:AAAA', now(), '') RETURNING identifier AS id, type, config
    """,
    new='{"id": "new-NNN", "type": "provider_a_kms", "config": {"key_id": "a", "region": "b"}}',
    remove_new=(
        "DELETE FROM signers_signer WHERE identifier LIKE 'new-%'",
        "DELETE FROM stock_signer WHERE id LIKE 'new-%'",
    ),
)

RELAYERS = Resource(
    name="relayers",
    path="/api/v1/relayers",
    page="""
        SELECT relayer.identifier AS id, name, relayer.network, network_type, nullif(address, '') AS address,
               signer.identifier AS signer_id, notification.identifier AS notification_id,
               paused, health.system_disabled,
               CASE WHEN health.system_disabled THEN
                 json_build_object('details', health.disabled_reason_details, 'type', health.disabled_reason_type)
               END AS disabled_reason,
               nullif(masked_rpc_urls, '[]')::text AS custom_rpc_urls, nullif(policies, '{}')::text AS policies
        FROM (SELECT * FROM relayers_relayer ORDER BY sequence LIMIT %(limit)s OFFSET %(offset)s) AS relayer
        JOIN relayers_relayerhealth AS health ON health.relayer_id = relayer.sequence
        JOIN signers_signer AS signer ON signer.sequence = signer_id
        LEFT JOIN notifications_notification AS notification ON notification.sequence = notification_id
        ORDER BY relayer.sequence
    """,
    count="SELECT count(*) FROM relayers_relayer",
    json_text=("custom_rpc_urls", "policies"),
)

RESOURCES = [SIGNERS, RELAYERS]
