"""What is measured. Another endpoint is one more `Resource` here and its plain form in `stock/`."""

from dataclasses import dataclass

SMALL = 1_000
LARGE = 1_000_000
PER_PAGE = 10


@dataclass(frozen=True)
class Resource:
    """A list and, if there is one, its create, with the SQL that a bare function would send for them."""

    name: str
    # The same for all three servers.
    path: str
    tables: tuple[str, ...]
    # Adds the rows from `first` to `last`.
    fill: str
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


SIGNERS = Resource(
    name="signers",
    path="/api/v1/signers",
    tables=("signers_signer", "stock_signer", "relayer_service_rowdelta"),
    fill="""
        WITH added AS (
          INSERT INTO signers_signer (identifier, type, config, secrets, created_at, verified_identity)
          SELECT 'signer-' || n, 'provider_a_kms', jsonb_build_object('key_id', 'key-' || n, 'region', 'eu-central-1'),
                 '1:AAAA', now(), ''
          FROM generate_series(%(first)s::int, %(last)s::int) AS n
          RETURNING identifier, type, config, created_at
        )
        INSERT INTO stock_signer (id, type, config, created_at)
        SELECT identifier, type, config, created_at + substring(identifier, 8)::int * interval '1 us' FROM added
    """,
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

# A signer for ten relayers, a notification for a thousand, and what is optional here and there.
RELAYERS = Resource(
    name="relayers",
    path="/api/v1/relayers",
    tables=(
        "relayers_relayer",
        "signers_signer",
        "notifications_notification",
        "stock_relayer",
        "stock_signer",
        "stock_notification",
        "relayer_service_rowdelta",
    ),
    fill="""
        WITH signer AS (
          INSERT INTO signers_signer (identifier, type, config, secrets, created_at, verified_identity)
          SELECT 'signer-' || n, 'plain', '{}', '1:AAAA', now(), '' FROM generate_series(0, %(last)s::int / 10) AS n
          RETURNING sequence, identifier, type, config, created_at
        ),
        notification AS (
          INSERT INTO notifications_notification (identifier, type, url, created_at)
          SELECT 'hook-' || n, 'webhook', 'https://hooks.example.com', now()
          FROM generate_series(0, %(last)s::int / 1000) AS n
          RETURNING sequence, identifier
        ),
        relayer AS (
          INSERT INTO relayers_relayer (
            identifier, created_at, name, network, network_type, address, signer_id, notification_id, paused,
            system_disabled, disabled_reason_type, disabled_reason_details, masked_rpc_urls, policies, balance_text,
            balance_is_low, failed_checks, good_checks
          )
          SELECT
            'relayer-' || n, now(), 'Relayer ' || n, 'sepolia', 'evm', '0x' || lpad(to_hex(n), 40, '0'),
            signer.sequence, notification.sequence, n %% 5 = 0, n %% 7 = 0,
            CASE WHEN n %% 7 = 0 THEN 'NonceSyncFailed' ELSE '' END,
            CASE WHEN n %% 7 = 0 THEN 'The nonce could not be read from any node.' ELSE '' END,
            CASE WHEN n %% 3 = 0 THEN '[{"url": "https://rpc.example.com/***", "weight": 100}]' ELSE '[]' END::jsonb,
            CASE WHEN n %% 4 > 0 THEN
              '{"eip1559_pricing": true, "gas_price_cap": 340282366920938463463374607431768211455, "min_balance": 1}'
            ELSE '{}' END::jsonb,
            '', FALSE, 0, 0
          FROM generate_series(%(first)s::int, %(last)s::int) AS n
          JOIN signer ON signer.identifier = 'signer-' || n / 10
          LEFT JOIN notification ON n %% 2 = 0 AND notification.identifier = 'hook-' || n / 1000
          ORDER BY n
          RETURNING *
        ),
        plain_signer AS (
          INSERT INTO stock_signer (id, type, config, created_at)
          SELECT identifier, type, config, created_at FROM signer
        ),
        plain_notification AS (INSERT INTO stock_notification (id) SELECT identifier FROM notification)
        INSERT INTO stock_relayer (
          id, created_at, name, network, network_type, address, signer_id, notification_id, paused, system_disabled,
          disabled_reason, custom_rpc_urls, policies
        )
        SELECT
          relayer.identifier, relayer.created_at + substring(relayer.identifier, 9)::int * interval '1 us', name,
          network, network_type, address, signer.identifier, notification.identifier, paused, system_disabled,
          CASE WHEN system_disabled
            THEN jsonb_build_object('details', disabled_reason_details, 'type', disabled_reason_type) END,
          nullif(masked_rpc_urls, '[]'), nullif(policies, '{}')
        FROM relayer
        JOIN signer ON signer.sequence = signer_id
        LEFT JOIN notification ON notification.sequence = notification_id
    """,
    page="""
        SELECT relayer.identifier AS id, name, network, network_type, nullif(address, '') AS address,
               signer.identifier AS signer_id, notification.identifier AS notification_id, paused, system_disabled,
               CASE WHEN system_disabled
                 THEN json_build_object('details', disabled_reason_details, 'type', disabled_reason_type)
               END AS disabled_reason,
               nullif(masked_rpc_urls, '[]')::text AS custom_rpc_urls, nullif(policies, '{}')::text AS policies
        FROM (SELECT * FROM relayers_relayer ORDER BY sequence LIMIT %(limit)s OFFSET %(offset)s) AS relayer
        JOIN signers_signer AS signer ON signer.sequence = signer_id
        LEFT JOIN notifications_notification AS notification ON notification.sequence = notification_id
        ORDER BY relayer.sequence
    """,
    count="SELECT count(*) FROM relayers_relayer",
    json_text=("custom_rpc_urls", "policies"),
)

RESOURCES = [SIGNERS, RELAYERS]


@dataclass(frozen=True)
class Figure:
    """One line of the table: a request that all three servers answer."""

    resource: Resource
    name: str
    rows: int
    method: str = "GET"
    query: str = ""

    @property
    def title(self) -> str:
        return f"{self.resource.name}: {self.name}"

    @property
    def path(self) -> str:
        return self.resource.path + self.query


def figures_of(resource: Resource, rows: int) -> list[Figure]:
    middle = rows // PER_PAGE // 2
    figures = [
        Figure(resource, f"list of {rows:,}, page 1", rows, query=f"?page=1&per_page={PER_PAGE}"),
        Figure(resource, f"list of {rows:,}, page {middle:,}", rows, query=f"?page={middle}&per_page={PER_PAGE}"),
    ]
    if rows == SMALL and resource.new:
        figures.append(Figure(resource, "create", rows, method="POST"))
    return figures
