-- +goose Up
CREATE TABLE snapshots (
    id           TEXT PRIMARY KEY,
    name         TEXT    UNIQUE, -- NULL where it has none
    sandbox_id   TEXT    NOT NULL,
    template     TEXT    NOT NULL,
    warm_key     TEXT    NOT NULL,
    cpu          INTEGER NOT NULL,
    memory_mb    INTEGER NOT NULL,
    created_ns   INTEGER NOT NULL, -- Unix time
    metadata     TEXT    NOT NULL, -- JSON object, as is env
    env          TEXT    NOT NULL,
    memory_bytes INTEGER NOT NULL,
    disk_bytes   INTEGER NOT NULL,
    pause_ms     REAL    NOT NULL,
    total_ms     REAL    NOT NULL
);
ALTER TABLE sandboxes ADD COLUMN from_snapshot TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN fork_parent TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN fork_tree TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN idle_timeout_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN on_timeout TEXT NOT NULL DEFAULT 'kill';
ALTER TABLE sandboxes ADD COLUMN auto_wake BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE sandboxes ADD COLUMN saved TEXT NOT NULL DEFAULT '';

-- +goose Down
DROP TABLE snapshots;
ALTER TABLE sandboxes DROP COLUMN from_snapshot;
ALTER TABLE sandboxes DROP COLUMN fork_parent;
ALTER TABLE sandboxes DROP COLUMN fork_tree;
ALTER TABLE sandboxes DROP COLUMN idle_timeout_ns;
ALTER TABLE sandboxes DROP COLUMN on_timeout;
ALTER TABLE sandboxes DROP COLUMN auto_wake;
ALTER TABLE sandboxes DROP COLUMN saved;
