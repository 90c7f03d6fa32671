package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"pandastack/api"
)

type templateCmd struct {
	Build buildCmd       `cmd:"" help:"Build a template on this machine, or what is missing of it."`
	Ls    templateLsCmd  `cmd:"" help:"List the server's templates."`
	Get   templateGetCmd `cmd:"" help:"Describe a template and what is in it."`
	Rm    templateRmCmd  `cmd:"" help:"Remove a template of your own, or the builds of one that ships."`
	Prune pruneCmd       `cmd:"" help:"Free what no template and no sandbox needs: old builds, downloaded packages."`
}

type buildCmd struct {
	configFlags
	Name    string `arg:"" complete:"template" help:"Template to build, such as code-interpreter, or a folder with a template.yaml, such as ./my-template."`
	Refresh bool   `help:"Resolve its packages afresh."`
	Logs    bool   `help:"Print what the steps print."`
}

func (c *buildCmd) Run(s *session) error {
	view := newProgressView(s.Stdout)
	view.logs = c.Logs
	err := s.node.Build(s.ctx, c.settings(), c.Name, c.Refresh, view.show)
	view.close()
	if s.ctx.Err() != nil {
		return &localError{"interrupted", "the next 'template build' goes on where this one stopped"}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "template %s is ready (%s)\n", c.Name, view.total().Round(100*time.Millisecond))
	return err
}

type templateLsCmd struct{ listFlags }

func (c *templateLsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	items, err := server.Templates(s.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, items)
	}
	rows := [][]string{{"NAME", "STATUS", "CPU", "MEMORY", "DISK", "BUILT", "DESCRIPTION"}}
	for _, t := range items {
		rows = append(rows, []string{
			t.Name, t.Status, strconv.Itoa(t.CPU), fmt.Sprintf("%d MiB", t.MemoryMB), sizeOf(t), built(t), t.Description,
		})
	}
	return s.table(rows)
}

func built(t api.Template) string {
	if t.BuiltAt == nil {
		return "-"
	}
	return age(*t.BuiltAt) + " ago"
}

func sizeOf(t api.Template) string {
	if t.SizeBytes == 0 {
		return "-"
	}
	return bytesOf(t.SizeBytes)
}

type templateGetCmd struct {
	listFlags
	Name string `arg:"" name:"template" complete:"template" help:"Template."`
}

func (c *templateGetCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	t, err := server.Template(s.ctx, c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, t)
	}
	rows := [][]string{
		{"name", t.Name}, {"description", t.Description}, {"status", t.Status},
		{"size", fmt.Sprintf("%d CPU, %d MiB memory", t.CPU, t.MemoryMB)},
		{"disk", sizeOf(t)}, {"digest", orDash(t.Digest)}, {"built", built(t)},
	}
	return s.fields(append(rows, packageRows(t.Packages)...))
}

// packageRows lists what a template's image has in it: the Python packages, and
// how many of Debian's.
func packageRows(packages json.RawMessage) [][]string {
	type version struct{ Name, Version string }
	var in struct {
		Kernel version
		Debian []version
		Python []version
	}
	if json.Unmarshal(packages, &in) != nil {
		return nil // not built, or of another kind of server
	}
	rows := [][]string{
		{"kernel", in.Kernel.Name + " " + in.Kernel.Version},
		{"packages", fmt.Sprintf("%d of Debian, %d of Python (all with --json)", len(in.Debian), len(in.Python))},
	}
	for _, p := range in.Python {
		rows = append(rows, []string{"  " + p.Name, p.Version})
	}
	return rows
}
