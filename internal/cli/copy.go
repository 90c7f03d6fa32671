package cli

import (
	"errors"
	"fmt"
	"strings"

	"pandastack/client"
)

type cpCmd struct {
	clientFlags
	From string `arg:"" name:"from" help:"Local path, or SANDBOX:PATH."`
	To   string `arg:"" name:"to" help:"Local path, or SANDBOX:PATH."`
}

// place is one end of a copy. A local one has no sandbox.
type place struct{ sandbox, path string }

// placeOf splits SANDBOX:PATH. A local file with a colon is given as ./a:b.
func placeOf(arg string) place {
	id, path, ok := strings.Cut(arg, ":")
	if !ok || id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return place{path: arg}
	}
	if path == "" {
		path = "."
	}
	return place{sandbox: id, path: path}
}

// contents says whether a path means what is in a folder and not the folder itself.
func contents(path string) bool { return path == "." || strings.HasSuffix(path, "/.") }

func (c *cpCmd) Run(s *session) error {
	from, to := placeOf(c.From), placeOf(c.To)
	if (from.sandbox == "") == (to.sandbox == "") {
		return usageError{&localError{message: "one of the two must be SANDBOX:PATH, and one a local path"}}
	}
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	t := &transfer{session: s, server: server, sandbox: from.sandbox + to.sandbox}
	if from.sandbox != "" {
		err = t.download(from.path, to.path)
	} else {
		err = t.upload(from.path, to.path)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "copied %s (%s)\n", counted(t.files, "file"), bytesOf(t.bytes))
	if t.skipped > 0 {
		return exitCode(1)
	}
	return nil
}

// transfer is one copy under way.
type transfer struct {
	*session
	server  *client.Client
	sandbox string

	files   int
	bytes   int64
	skipped int
}

// entry is a file or folder to copy. Its path below the target has slashes
// and never leads out of it.
type entry struct {
	source     string
	below      string // "" is the target itself
	folder     bool
	executable bool
	size       int64
}

// Bounds of one copy, so that a sandbox cannot keep the command busy for ever.
const (
	maxEntries = 500_000
	maxDepth   = 200
)

var errTooMany = errors.New("too many files or folders within folders for one copy")

// skip tells of what is no file and no folder. The rest is copied.
func (t *transfer) skip(path, why string) {
	t.skipped++
	fmt.Fprintf(t.Stderr, "not copied: %s: %s\n", clean(path), why)
}

func total(entries []entry) (bytes int64) {
	for _, e := range entries {
		bytes += e.size
	}
	return bytes
}
