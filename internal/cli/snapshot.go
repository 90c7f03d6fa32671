package cli

import (
	"fmt"
	"maps"
	"slices"
)

type snapshotCmd struct {
	Ls  snapshotLsCmd  `cmd:"" help:"List snapshots."`
	Get snapshotGetCmd `cmd:"" help:"Describe a snapshot."`
	Rm  snapshotRmCmd  `cmd:"" help:"Remove snapshots."`
}

type snapshotLsCmd struct {
	listFlags
	Sandbox string `placeholder:"ID" complete:"sandbox" help:"Only those of one sandbox, which may be gone."`
}

func (c *snapshotLsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	items, err := server.Snapshots(s.ctx, c.Sandbox)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, items)
	}
	rows := [][]string{{"ID", "NAME", "TEMPLATE", "SANDBOX", "AGE", "MEMORY", "DISK"}}
	for _, one := range items {
		rows = append(rows, []string{
			one.ID, orDash(one.Name), one.Template, one.SandboxID, age(one.CreatedAt), bytesOf(one.MemoryBytes), bytesOf(one.DiskBytes),
		})
	}
	return s.table(rows)
}

type snapshotGetCmd struct {
	listFlags
	ID string `arg:"" name:"snapshot" complete:"snapshot" help:"Id or name."`
}

func (c *snapshotGetCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	one, err := server.Snapshot(s.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, one)
	}
	rows := [][]string{
		{"id", one.ID}, {"name", orDash(one.Name)}, {"template", one.Template}, {"sandbox", one.SandboxID},
		{"size", fmt.Sprintf("%d CPU, %d MiB memory", one.CPU, one.MemoryMB)},
		{"created", one.CreatedAt.Format(timeFormat) + " (" + age(one.CreatedAt) + " ago)"},
		{"on disk", bytesOf(one.MemoryBytes) + " of memory, " + bytesOf(one.DiskBytes) + " of disk"},
		{"paused", fmt.Sprintf("%.0f ms, written in %.0f ms", one.PauseMS, one.TotalMS)},
	}
	for _, key := range slices.Sorted(maps.Keys(one.Metadata)) {
		rows = append(rows, []string{"metadata." + key, one.Metadata[key]})
	}
	return s.fields(rows)
}

type snapshotRmCmd struct {
	clientFlags
	IDs []string `arg:"" name:"snapshot" complete:"snapshot" help:"Ids or names."`
}

func (c *snapshotRmCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	return s.each(c.IDs, func(id string) error { return server.DeleteSnapshot(s.ctx, id) })
}
