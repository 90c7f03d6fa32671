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
	"pandastack/internal/store"
)

const columns = `id, template, warm_key, cpu, memory_mb, status, failure, created_ns, ttl_ns,
	persistent, metadata, env, isolation, accelerator, start, ttl_from_ns,
	from_snapshot, fork_parent, fork_tree, idle_timeout_ns, on_timeout, auto_wake, saved`

// marks has one for each column.
const marks = `(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

type sandboxes struct {
	db *sql.DB
}

func (s sandboxes) Put(ctx context.Context, sb panda.Sandbox) error {
	row, err := values(sb)
	if err == nil {
		failpoint.Hit("put sandbox")
		_, err = s.db.ExecContext(ctx, `INSERT INTO sandboxes (`+columns+`) VALUES `+marks, row...)
	}
	return wrap("put sandbox", sb.ID, err)
}

func (s sandboxes) Get(ctx context.Context, id string) (panda.Sandbox, error) {
	sb, err := scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM sandboxes WHERE id = ?`, id))
	return sb, wrap("get sandbox", id, err)
}

func (s sandboxes) List(ctx context.Context) ([]panda.Sandbox, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM sandboxes ORDER BY created_ns, id`)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	defer rows.Close()
	var all []panda.Sandbox
	for rows.Next() {
		sb, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list sandboxes: %w", err)
		}
		all = append(all, sb)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	return all, nil
}

func (s sandboxes) Update(ctx context.Context, sb panda.Sandbox, from panda.Status) error {
	row, err := values(sb)
	if err != nil {
		return wrap("update sandbox", sb.ID, err)
	}
	failpoint.Hit("update sandbox")
	result, err := s.db.ExecContext(ctx, `UPDATE sandboxes SET (`+columns+`) = `+marks+` WHERE id = ? AND status = ?`, append(row, sb.ID, from)...)
	if err != nil {
		return wrap("update sandbox", sb.ID, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return wrap("update sandbox", sb.ID, err)
	}
	return wrap("update sandbox", sb.ID, s.whyNot(ctx, sb.ID, from))
}

func (s sandboxes) whyNot(ctx context.Context, id string, from panda.Status) error {
	var found panda.Status
	err := s.db.QueryRowContext(ctx, `SELECT status FROM sandboxes WHERE id = ?`, id).Scan(&found)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s, expected %s", store.ErrConflict, found, from)
}

func (s sandboxes) Delete(ctx context.Context, id string) error {
	failpoint.Hit("delete sandbox")
	_, err := s.db.ExecContext(ctx, `DELETE FROM sandboxes WHERE id = ?`, id)
	return wrap("delete sandbox", id, err)
}

// values gives sb in the order of columns.
func values(sb panda.Sandbox) ([]any, error) {
	metadata, err1 := json.Marshal(sb.Metadata)
	env, err2 := json.Marshal(sb.Env)
	start, err3 := json.Marshal(sb.Start)
	return []any{
		sb.ID, sb.Template, sb.WarmKey, sb.CPU, sb.MemoryMB, string(sb.Status), sb.Failure,
		sb.CreatedAt.UnixNano(), int64(sb.TTL), sb.Persistent, string(metadata), string(env),
		sb.Isolation, sb.Accelerator, string(start), nanoseconds(sb.TTLFrom),
		sb.FromSnapshot, sb.ForkParent, sb.ForkTree, int64(sb.IdleTimeout), sb.OnTimeout, sb.AutoWake, sb.Saved,
	}, errors.Join(err1, err2, err3)
}

func scan(row interface{ Scan(...any) error }) (panda.Sandbox, error) {
	var sb panda.Sandbox
	var created, from int64
	var metadata, env, start []byte
	err := row.Scan(&sb.ID, &sb.Template, &sb.WarmKey, &sb.CPU, &sb.MemoryMB, &sb.Status, &sb.Failure,
		&created, &sb.TTL, &sb.Persistent, &metadata, &env, &sb.Isolation, &sb.Accelerator, &start, &from,
		&sb.FromSnapshot, &sb.ForkParent, &sb.ForkTree, &sb.IdleTimeout, &sb.OnTimeout, &sb.AutoWake, &sb.Saved)
	if err != nil {
		return panda.Sandbox{}, err
	}
	sb.CreatedAt = time.Unix(0, created).UTC()
	if from != 0 {
		sb.TTLFrom = time.Unix(0, from).UTC()
	}
	err = errors.Join(json.Unmarshal(metadata, &sb.Metadata), json.Unmarshal(env, &sb.Env), json.Unmarshal(start, &sb.Start))
	return sb, err
}

// nanoseconds of Unix time; 0 is the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
