-- +goose Up
CREATE TABLE sandboxes (
    id          TEXT PRIMARY KEY,
    template    TEXT    NOT NULL,
    warm_key    TEXT    NOT NULL,
    cpu         INTEGER NOT NULL,
    memory_mb   INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    failure     TEXT    NOT NULL,
    created_ns  INTEGER NOT NULL, -- Unix time
    ttl_ns      INTEGER NOT NULL,
    persistent  BOOLEAN NOT NULL,
    metadata    TEXT    NOT NULL, -- JSON object, as are env and start
    env         TEXT    NOT NULL,
    isolation   TEXT    NOT NULL,
    accelerator TEXT    NOT NULL,
    start       TEXT    NOT NULL
);

-- +goose Down
DROP TABLE sandboxes;
