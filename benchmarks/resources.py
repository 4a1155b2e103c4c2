"""What is measured. A later endpoint is one more `Resource` here and its plain form in `stock/`."""

from dataclasses import dataclass

SMALL = 1_000
LARGE = 1_000_000
PER_PAGE = 10


@dataclass(frozen=True)
class Resource:
    """A list and its create, with the SQL that a bare function would send for them."""

    name: str
    # Of the service and of the limit; `stock` serves the same under the same path.
    path: str
    tables: tuple[str, ...]
    # Adds the rows from `first` to `last`.
    fill: str
    # The limit's queries. The page's columns are named as the members of the answer.
    page: str
    count: str
    insert: str
    # What is sent to create one; the characters `NNN` become another number each time.
    new: str
    # Remove what that created.
    remove_new: tuple[str, ...]


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

RESOURCES = [SIGNERS]


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
    if rows == SMALL:
        figures.append(Figure(resource, "create", rows, method="POST"))
    return figures
