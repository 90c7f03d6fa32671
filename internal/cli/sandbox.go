package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pandastack/api"
)

type listFlags struct {
	clientFlags
	JSON bool `help:"Print JSON."`
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
	rows := [][]string{{"NAME", "STATUS", "CPU", "MEMORY", "SIZE", "BUILT", "DESCRIPTION"}}
	for _, t := range items {
		built := "-"
		if t.BuiltAt != nil {
			built = age(*t.BuiltAt) + " ago"
		}
		rows = append(rows, []string{
			t.Name, t.Status, strconv.Itoa(t.CPU), fmt.Sprintf("%d MB", t.MemoryMB),
			fmt.Sprintf("%d MB", t.SizeBytes>>20), built, t.Description,
		})
	}
	return printTable(s.Stdout, rows)
}

type sandboxCmd struct {
	Create sandboxCreateCmd `cmd:"" help:"Create a sandbox and print its id."`
	Ls     sandboxLsCmd     `cmd:"" help:"List sandboxes."`
	Get    sandboxGetCmd    `cmd:"" help:"Describe a sandbox."`
	Rm     sandboxRmCmd     `cmd:"" help:"Remove sandboxes."`
}

type sandboxCreateCmd struct {
	listFlags
	Template string            `default:"code-interpreter" help:"Template to make it from [${default}]."`
	TTL      int               `name:"ttl" placeholder:"SECONDS" help:"Remove it after this time."`
	Metadata map[string]string `placeholder:"KEY=VALUE" help:"Notes to keep with it."`
}

func (c *sandboxCreateCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	box, err := server.CreateSandbox(s.ctx, api.CreateSandbox{Template: c.Template, TTLSeconds: c.TTL, Metadata: c.Metadata})
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
		start := fmt.Sprintf("%s in %.0f ms", b.Start.Kind, b.Start.TotalMS)
		rows = append(rows, []string{b.ID, b.Template, b.Status, age(b.CreatedAt), start, b.Isolation})
	}
	return printTable(s.Stdout, rows)
}

type sandboxGetCmd struct {
	listFlags
	ID string `arg:"" help:"Sandbox."`
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
	var steps []string
	for _, step := range b.Start.Steps {
		steps = append(steps, fmt.Sprintf("%s %.1f ms", step.Name, step.MS))
	}
	expires := "never"
	if b.ExpiresAt != nil {
		expires = b.ExpiresAt.Format("2006-01-02 15:04:05 MST")
	}
	rows := [][]string{
		{"id", b.ID}, {"template", b.Template}, {"status", b.Status}, {"failure", orDash(b.Failure)},
		{"size", fmt.Sprintf("%d CPU, %d MB", b.CPU, b.MemoryMB)},
		{"created", b.CreatedAt.Format("2006-01-02 15:04:05 MST")}, {"expires", expires},
		{"start", fmt.Sprintf("%s in %.1f ms: %s", b.Start.Kind, b.Start.TotalMS, strings.Join(steps, ", "))},
		{"isolation", b.Isolation}, {"accelerator", b.Accelerator},
	}
	for key, value := range b.Metadata {
		rows = append(rows, []string{"metadata." + key, value})
	}
	return printTable(s.Stdout, rows)
}

type sandboxRmCmd struct {
	clientFlags
	IDs []string `arg:"" name:"id" help:"Sandboxes."`
}

// Run removes what it can; one that fails does not keep the others.
func (c *sandboxRmCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range c.IDs {
		if err := server.DeleteSandbox(s.ctx, id); err != nil {
			printFailure(s.Stderr, explain(err, s.node))
			errs = append(errs, err)
		}
	}
	if errors.Join(errs...) != nil {
		return exitCode(1)
	}
	return nil
}
