package cli

import (
	"fmt"
	"path/filepath"
)

type templateRmCmd struct {
	DataDir string `placeholder:"DIR" help:"Folder the template is in [PANDASTACK_DATA_DIR]."`
	Name    string `arg:"" name:"template" complete:"template" help:"Template. Sandboxes made from it go on."`
}

func (c *templateRmCmd) Run(s *session) error {
	if err := s.node.RemoveTemplate(s.ctx, configFlags{DataDir: c.DataDir}.settings(), c.Name); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Stdout, "removed %s\n", c.Name)
	return err
}

// Pruned is what was freed.
type Pruned struct {
	Removed []string `json:"removed"` // files and folders
	Bytes   int64    `json:"bytes"`
}

type pruneCmd struct {
	DataDir string `placeholder:"DIR" help:"Folder to clean up [PANDASTACK_DATA_DIR]."`
	JSON    bool   `help:"Print JSON."`
}

func (c *pruneCmd) Run(s *session) error {
	pruned, err := s.node.PruneTemplates(s.ctx, configFlags{DataDir: c.DataDir}.settings())
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Stdout, pruned)
	}
	for _, path := range pruned.Removed {
		fmt.Fprintf(s.Stdout, "removed %s\n", filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
	}
	_, err = fmt.Fprintf(s.Stdout, "%d removed, %d MiB freed\n", len(pruned.Removed), pruned.Bytes>>20)
	return err
}
