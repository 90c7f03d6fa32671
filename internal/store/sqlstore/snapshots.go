package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/panda"
)

const snapshotColumns = `id, name, sandbox_id, template, warm_key, cpu, memory_mb, created_ns,
	metadata, env, memory_bytes, disk_bytes, pause_ms, total_ms`

type snapshots struct {
	db *sql.DB
}

func (s snapshots) Put(ctx context.Context, sn panda.Snapshot) error {
	metadata, err1 := json.Marshal(sn.Metadata)
	env, err2 := json.Marshal(sn.Env)
	err := errors.Join(err1, err2)
	if err == nil {
		failpoint.Hit("put snapshot")
		_, err = s.db.ExecContext(ctx, `INSERT INTO snapshots (`+snapshotColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			sn.ID, sql.NullString{String: sn.Name, Valid: sn.Name != ""}, sn.SandboxID, sn.Template, sn.WarmKey, sn.CPU, sn.MemoryMB,
			sn.CreatedAt.UnixNano(), string(metadata), string(env), sn.MemoryBytes, sn.DiskBytes, sn.PauseMS, sn.TotalMS)
	}
	return wrap("put snapshot", sn.ID, err)
}

func (s snapshots) List(ctx context.Context) (all []panda.Snapshot, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+snapshotColumns+` FROM snapshots ORDER BY created_ns, id`)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		sn, err := scanSnapshot(rows)
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		all = append(all, sn)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return all, nil
}

func (s snapshots) Delete(ctx context.Context, id string) error {
	failpoint.Hit("delete snapshot")
	_, err := s.db.ExecContext(ctx, `DELETE FROM snapshots WHERE id = ?`, id)
	return wrap("delete snapshot", id, err)
}

func scanSnapshot(row interface{ Scan(...any) error }) (panda.Snapshot, error) {
	var sn panda.Snapshot
	var name sql.NullString
	var created int64
	var metadata, env []byte
	err := row.Scan(&sn.ID, &name, &sn.SandboxID, &sn.Template, &sn.WarmKey, &sn.CPU, &sn.MemoryMB, &created,
		&metadata, &env, &sn.MemoryBytes, &sn.DiskBytes, &sn.PauseMS, &sn.TotalMS)
	if err != nil {
		return sn, err
	}
	sn.Name, sn.CreatedAt = name.String, time.Unix(0, created).UTC()
	return sn, errors.Join(json.Unmarshal(metadata, &sn.Metadata), json.Unmarshal(env, &sn.Env))
}
