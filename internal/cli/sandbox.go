package cli

import (
	"fmt"
	"maps"
	"slices"

	"pandastack/api"
)

type listFlags struct {
	clientFlags
	JSON bool `help:"Print JSON."`
}

type sandboxCmd struct {
	Create sandboxCreateCmd `cmd:"" help:"Create a sandbox and print its id."`
	Ls     sandboxLsCmd     `cmd:"" help:"List sandboxes."`
	Get    sandboxGetCmd    `cmd:"" help:"Describe a sandbox."`
	Rm     sandboxRmCmd     `cmd:"" help:"Remove sandboxes."`

	Pause     sandboxPauseCmd     `cmd:"" help:"Let sandboxes stand still in memory."`
	Resume    sandboxResumeCmd    `cmd:"" help:"Let paused sandboxes go on."`
	Hibernate sandboxHibernateCmd `cmd:"" help:"Move sandboxes to disk and free their memory."`
	Wake      sandboxWakeCmd      `cmd:"" help:"Bring hibernated sandboxes back as they were."`
	Snapshot  sandboxSnapshotCmd  `cmd:"" help:"Save a sandbox, for others to go on from, and print the snapshot's id."`
	Fork      sandboxForkCmd      `cmd:"" help:"Copy a sandbox as it is at this moment, and print the copies' ids."`
}

// sizeFlags choose another size than the template's.
type sizeFlags struct {
	CPU    int `name:"cpu" placeholder:"N" help:"Virtual CPUs [the template's]."`
	Memory int `placeholder:"MB" help:"Memory in MiB [the template's]."`
}

// sandbox asks for one of a template in this size.
func (f sizeFlags) sandbox(template string) api.CreateSandbox {
	return api.CreateSandbox{Template: template, CPU: f.CPU, MemoryMB: f.Memory}
}

type sandboxCreateCmd struct {
	listFlags
	sizeFlags
	Template     string            `default:"code-interpreter" complete:"template" help:"Template to make it from [${default}]."`
	FromSnapshot string            `placeholder:"SNAPSHOT" complete:"snapshot" help:"Go on from a snapshot, with its template and size."`
	IdleTimeout  int               `placeholder:"SECONDS" help:"What --on-timeout says happens when nothing has run in it for so long."`
	OnTimeout    string            `enum:"kill,hibernate" default:"kill" placeholder:"kill|hibernate" help:"What happens at the end of a time to live or of an idle time [${default}]."`
	TTL          int               `name:"ttl" placeholder:"SECONDS" help:"Remove it after this time, or what --on-timeout says."`
	Metadata     map[string]string `placeholder:"KEY=VALUE" help:"Notes to keep with it."`
}

func (c *sandboxCreateCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	req := c.sandbox(c.Template)
	if req.FromSnapshot = c.FromSnapshot; c.FromSnapshot != "" {
		req.Template = ""
	}
	req.TTLSeconds, req.Metadata = c.TTL, c.Metadata
	req.IdleTimeoutSeconds, req.OnTimeout = c.IdleTimeout, c.OnTimeout
	box, err := s.createSandbox(server, req)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, box)
	}
	_, err = fmt.Fprintln(s.Stdout, box.ID)
	return err
}

type sandboxLsCmd struct{ listFlags }

func (c *sandboxLsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	items, err := server.Sandboxes(s.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, items)
	}
	rows := [][]string{{"ID", "TEMPLATE", "STATUS", "AGE", "START", "ISOLATION"}}
	for _, b := range items {
		rows = append(rows, []string{b.ID, b.Template, b.Status, age(b.CreatedAt), startOf(b), b.Isolation})
	}
	return s.table(rows)
}

type sandboxGetCmd struct {
	listFlags
	ID string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
}

func (c *sandboxGetCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	b, err := server.Sandbox(s.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, b)
	}
	return s.fields(append(describe(b), usageRows(b.Usage)...))
}

const timeFormat = "2006-01-02 15:04:05 MST"

func describe(b api.Sandbox) [][]string {
	expires := "never"
	if b.ExpiresAt != nil {
		expires = b.ExpiresAt.Format(timeFormat)
	}
	rows := [][]string{{"id", b.ID}, {"template", b.Template}, {"status", b.Status}}
	if b.Failure != "" {
		rows = append(rows, []string{"failure", b.Failure})
	}
	rows = append(rows,
		[]string{"size", fmt.Sprintf("%d CPU, %d MiB memory", b.CPU, b.MemoryMB)},
		[]string{"created", b.CreatedAt.Format(timeFormat) + " (" + age(b.CreatedAt) + " ago)"},
		[]string{"expires", expires},
		[]string{"start", startOf(b)},
	)
	for _, step := range b.Start.Steps {
		rows = append(rows, []string{"  " + step.Name, fmt.Sprintf("%.1f ms", step.MS)})
	}
	for _, origin := range [][]string{{"snapshot", b.FromSnapshot}, {"copy of", b.ForkParentID}, {"tree", b.ForkTreeID}} {
		if origin[1] != "" {
			rows = append(rows, origin)
		}
	}
	rows = append(rows, []string{"isolation", b.Isolation + ", accelerator " + b.Accelerator})
	for _, key := range slices.Sorted(maps.Keys(b.Metadata)) {
		rows = append(rows, []string{"metadata." + key, b.Metadata[key]})
	}
	return rows
}

// startOf says how a sandbox came to life.
func startOf(b api.Sandbox) string {
	start := fmt.Sprintf("%s in %.0f ms", b.Start.Kind, b.Start.TotalMS)
	if b.Start.Lost != "" {
		start += ", its " + b.Start.Lost + " was lost"
	}
	return start
}

// usageRows says what a sandbox uses, as far as that is known.
func usageRows(u *api.Usage) [][]string {
	if u == nil {
		return nil
	}
	rows := [][]string{{"memory", bytesOf(u.Memory.HostPrivateBytes) + " of this host"}}
	disk := bytesOf(u.Disk.HostBytes) + " of this host"
	if g := u.Guest; g != nil {
		used := g.MemoryTotalBytes - g.MemoryAvailableBytes
		rows[0][1] += fmt.Sprintf("; in the guest %s of %s in use", bytesOf(used), bytesOf(g.MemoryTotalBytes))
		rows = append(rows, []string{"cpu", fmt.Sprintf("%.1f s in the %.0f s since its start", g.CPUSeconds, g.UptimeSeconds)})
		disk += fmt.Sprintf("; in the guest %s of %s in use", bytesOf(g.DiskUsedBytes), bytesOf(g.DiskTotalBytes))
	}
	return append(rows, []string{"disk", disk}, []string{"network", u.Network})
}

type sandboxRmCmd struct {
	clientFlags
	All bool     `help:"Remove all sandboxes of the server."`
	IDs []string `arg:"" optional:"" name:"sandbox" complete:"sandbox" help:"Sandboxes."`
}

// Run removes what it can; one that fails does not keep the others.
func (c *sandboxRmCmd) Run(s *session) error {
	if c.All == (len(c.IDs) > 0) {
		return usageError{&localError{message: "give either sandboxes or --all"}}
	}
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	ids := c.IDs
	if c.All {
		boxes, err := server.Sandboxes(s.ctx)
		if err != nil {
			return err
		}
		for _, b := range boxes {
			ids = append(ids, b.ID)
		}
	}
	return s.each(ids, func(id string) error { return server.DeleteSandbox(s.ctx, id) })
}
