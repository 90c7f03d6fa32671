package cli

import (
	"context"
	"fmt"

	"pandastack/api"
	"pandastack/client"
)

// onSandboxes are commands that do one thing to each of some sandboxes.
type onSandboxes struct {
	clientFlags
	IDs []string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandboxes."`
}

func (c *onSandboxes) each(s *session, do func(*client.Client, string) (api.Sandbox, error)) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	return s.each(c.IDs, func(id string) error {
		_, err := do(server, id)
		return err
	})
}

// each does what it can, and prints the id of each that it was done to; one that
// fails does not keep the others.
func (s *session) each(ids []string, do func(id string) error) error {
	failed := false
	for _, id := range ids {
		if err := do(id); err != nil {
			printFailure(s.Env, explain(err, s.node))
			failed = true
			continue
		}
		fmt.Fprintln(s.Stdout, id)
	}
	if failed {
		return exitCode(1)
	}
	return nil
}

type sandboxPauseCmd struct{ onSandboxes }

func (c *sandboxPauseCmd) Run(s *session) error {
	return c.each(s, func(server *client.Client, id string) (api.Sandbox, error) { return server.Pause(s.ctx, id) })
}

type sandboxResumeCmd struct{ onSandboxes }

func (c *sandboxResumeCmd) Run(s *session) error {
	return c.each(s, func(server *client.Client, id string) (api.Sandbox, error) { return server.Resume(s.ctx, id) })
}

type sandboxHibernateCmd struct{ onSandboxes }

func (c *sandboxHibernateCmd) Run(s *session) error {
	return c.each(s, func(server *client.Client, id string) (api.Sandbox, error) { return server.Hibernate(s.ctx, id) })
}

type sandboxWakeCmd struct {
	FromDisk bool `help:"Boot it anew from its files: what was in memory is lost."`
	onSandboxes
}

func (c *sandboxWakeCmd) Run(s *session) error {
	req := api.Wake{}
	if c.FromDisk {
		req.From = "disk"
	}
	return c.each(s, func(server *client.Client, id string) (api.Sandbox, error) { return server.Wake(s.ctx, id, req) })
}

type sandboxForkCmd struct {
	listFlags
	Count    int               `default:"1" placeholder:"N" help:"How many copies, at most 16 [${default}]."`
	Metadata map[string]string `placeholder:"KEY=VALUE" help:"Notes to keep with them, in addition to the sandbox's."`
	ID       string            `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
}

func (c *sandboxForkCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	tree, err := server.ForkTree(s.ctx, c.ID, api.ForkTree{Count: c.Count, Metadata: c.Metadata})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, tree.Children)
	}
	for _, child := range tree.Children {
		if _, err := fmt.Fprintln(s.Stdout, child.ID); err != nil {
			return err
		}
	}
	return nil
}

type sandboxSnapshotCmd struct {
	listFlags
	Name     string            `placeholder:"NAME" help:"Another name of it, besides its id."`
	Metadata map[string]string `placeholder:"KEY=VALUE" help:"Notes to keep with it, in addition to the sandbox's."`
	ID       string            `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
}

func (c *sandboxSnapshotCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	taken, err := server.TakeSnapshot(s.ctx, c.ID, api.TakeSnapshot{Name: c.Name, Metadata: c.Metadata})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, taken)
	}
	_, err = fmt.Fprintln(s.Stdout, taken.ID)
	return err
}

// snapshotNames are what snapshots go by, for completion.
func snapshotNames(ctx context.Context, server *client.Client) (names []string) {
	all, _ := server.Snapshots(ctx, "") // without an answer there is nothing to offer
	for _, one := range all {
		names = append(names, one.ID)
		if one.Name != "" {
			names = append(names, one.Name)
		}
	}
	return names
}
