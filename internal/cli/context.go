package cli

import (
	"context"
	"fmt"
	"strconv"

	"pandastack/api"
	"pandastack/client"
)

type contextCmd struct {
	Ls     contextLsCmd     `cmd:"" help:"List the contexts of a sandbox."`
	Cells  contextCellsCmd  `cmd:"" help:"List the cells of a context: those that ended lately, the one that runs, those that wait."`
	Export contextExportCmd `cmd:"" help:"Write the cells that a context ran as a notebook."`
}

// inContext names a context.
type inContext struct {
	ID      string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
	Context string `arg:"" name:"context" complete:"context" help:"Context."`
}

type contextLsCmd struct {
	listFlags
	ID string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
}

func (c *contextLsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	items, err := server.Contexts(s.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, items)
	}
	rows := [][]string{{"ID", "NAME", "KERNEL", "STATUS", "WAITING", "CELLS", "AGE"}}
	for _, one := range items {
		rows = append(rows, []string{
			one.ID, orDash(one.Name), first(one.Kernel, one.Language), one.Status, strconv.Itoa(one.Waiting), strconv.Itoa(one.ExecutionCount), age(one.CreatedAt),
		})
	}
	return s.table(rows)
}

type contextCellsCmd struct {
	listFlags
	inContext
}

func (c *contextCellsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	items, err := server.Executions(s.ctx, c.ID, c.Context)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, items)
	}
	rows := [][]string{{"ID", "STATUS", "AGE", "CODE"}}
	for _, one := range items {
		rows = append(rows, []string{one.ID, one.Status, age(one.QueuedAt), codeOf(one)})
	}
	return s.table(rows)
}

// codeOf is what a cell, or a message to a comm, is known by.
func codeOf(one api.ExecutionInfo) string {
	if one.CommID != "" {
		return "message to the comm " + one.CommID
	}
	return firstLine(one.Code)
}

type contextExportCmd struct {
	clientFlags
	Output string `short:"o" placeholder:"FILE" help:"Where to write it (.ipynb) [standard output]."`
	inContext
}

func (c *contextExportCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	notebook, err := c.export(s, server)
	if err != nil {
		return err
	}
	if err := s.writeNotebook(c.Output, notebook); err != nil {
		return err
	}
	told := counted(len(notebook.Cells), "cell")
	if c.Output != "" {
		told = fmt.Sprintf("wrote %s to %s", told, c.Output)
	}
	if missing := withoutOutputs(notebook); missing > 0 {
		told += fmt.Sprintf("; the outputs of %d are not kept any more", missing)
	}
	fmt.Fprintln(s.Stderr, told)
	return nil
}

// export reads the cells, and tells how far it is.
func (c *contextExportCmd) export(s *session, server *client.Client) (client.Notebook, error) {
	view := newProgressView(s.Stderr)
	defer view.close()
	reading := Progress{Step: "reading cells", Unit: "cells"}
	view.show(reading)
	return server.ExportNotebook(s.ctx, c.ID, c.Context, func(done, total int) {
		reading.Done, reading.Total = int64(done), int64(total)
		view.show(reading)
	})
}

func withoutOutputs(n client.Notebook) (missing int) {
	for _, cell := range n.Cells {
		if !cell.Kept {
			missing++
		}
	}
	return missing
}

// contextNames are the contexts of the sandbox that was given, for completion.
func contextNames(ctx context.Context, server *client.Client, given []string) (names []string) {
	if len(given) == 0 {
		return nil
	}
	all, _ := server.Contexts(ctx, given[0]) // without an answer there is nothing to offer
	for _, one := range all {
		names = append(names, one.ID)
	}
	return names
}

// executionNames are the cells of all its contexts.
func executionNames(ctx context.Context, server *client.Client, given []string) (names []string) {
	for _, kernel := range contextNames(ctx, server, given) {
		cells, _ := server.Executions(ctx, given[0], kernel)
		for _, one := range cells {
			names = append(names, one.ID)
		}
	}
	return names
}
