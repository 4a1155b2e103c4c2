#!/bin/sh
# Restores a backup into the empty PostgreSQL database of DATABASE_URL, all of it or nothing, and fails unless each table
# then has as many rows as in the backup: deploy/restore.sh backup.dump
set -eu
pg_restore --single-transaction --no-owner --no-comments --dbname="$DATABASE_URL" "$1"
# Writes queries that return a line for a table with other than the rows after its COPY, and if pg_restore fails.
differences=$({ pg_restore --data-only --file=- "$1" && echo complete; } | awk '
    { complete = !table && $0 == "complete" }
    !table && /^COPY .* FROM stdin;$/ { table = $2; rows = 0; tables++; next }
    table && $0 == "\\." {
        printf "SELECT \047%s: %d rows in the backup, \047 || count(*)", table, rows
        printf " FROM %s HAVING count(*) <> %d;\n", table, rows
        table = ""
    }
    table { rows++ }
    END { if (!tables) print "SELECT \047no tables in the backup\047;" }
    END { if (!complete) print "SELECT \047the backup could not be read to its end\047;" }
' | psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --dbname="$DATABASE_URL")
[ -z "$differences" ] || { echo "The restored database differs: $differences" >&2; exit 1; }
echo "Restored: each table has as many rows as in the backup."
