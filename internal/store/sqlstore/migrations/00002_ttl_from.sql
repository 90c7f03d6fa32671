-- +goose Up
-- When the time to live was set last, as Unix time; 0 is at creation.
ALTER TABLE sandboxes ADD COLUMN ttl_from_ns INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sandboxes DROP COLUMN ttl_from_ns;
