package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pandastack/api"
	"pandastack/client"
)

// removeTime is how long removing the sandbox may take once the command was interrupted.
const removeTime = 30 * time.Second

type runCmd struct {
	clientFlags
	File     string  `arg:"" optional:"" help:"Python file; - reads standard input."`
	Code     string  `short:"c" placeholder:"CODE" help:"Code to run instead of a file."`
	Template string  `default:"code-interpreter" help:"Template of the sandbox [${default}]."`
	Timeout  float64 `placeholder:"SECONDS" help:"Interrupt the code after this time."`
	Images   string  `placeholder:"DIR" help:"Save images that the code shows."`
	Keep     bool    `help:"Leave the sandbox and print its id at the end."`
}

func (c *runCmd) Run(s *session) (err error) {
	code, err := c.source(s)
	if err != nil {
		return err
	}
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	box, err := server.CreateSandbox(s.ctx, api.CreateSandbox{Template: c.Template})
	if err != nil {
		return err
	}
	defer func() {
		if c.Keep {
			fmt.Fprintf(s.Stderr, "sandbox %s is kept\n", box.ID)
			return
		}
		// Also when the command was interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), removeTime)
		defer cancel()
		if e := server.DeleteSandbox(ctx, box.ID); e != nil && err == nil {
			err = e
		}
	}()
	ex, err := c.execute(s.ctx, server, box.ID, code)
	if err != nil {
		return err
	}
	return c.print(s, ex)
}

func (c *runCmd) source(s *session) (string, error) {
	switch {
	case (c.Code == "") == (c.File == ""):
		return "", usageError{&localError{message: "give either a file or -c CODE"}}
	case c.Code != "":
		return c.Code, nil
	case c.File == "-":
		text, err := io.ReadAll(s.Stdin)
		return string(text), err
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return "", &localError{message: err.Error()}
	}
	return string(text), nil
}

func (c *runCmd) execute(ctx context.Context, server *client.Client, id, code string) (api.Execution, error) {
	kernel, err := server.CreateContext(ctx, id, api.CreateContext{})
	if err != nil {
		return api.Execution{}, err
	}
	return server.Execute(ctx, id, kernel.ID, api.Execute{Code: code, TimeoutSeconds: c.Timeout})
}

// print shows an execution as a notebook would, in text.
func (c *runCmd) print(s *session, ex api.Execution) error {
	if _, err := io.WriteString(s.Stdout, ex.Stdout); err != nil {
		return err
	}
	_, _ = io.WriteString(s.Stderr, ex.Stderr)
	images := 0
	for _, r := range ex.Results {
		if text, ok := stringOf(r.Data["text/plain"]); ok {
			fmt.Fprintln(s.Stdout, text)
		}
		path, err := c.saveImage(r, images+1)
		if err != nil {
			return err
		}
		if path != "" {
			images++
			fmt.Fprintf(s.Stderr, "saved %s\n", path)
		}
	}
	if ex.Error == nil {
		return nil
	}
	trace := ex.Error.Traceback
	if trace == "" {
		trace = ex.Error.Name + ": " + ex.Error.Value
	}
	fmt.Fprintln(s.Stderr, trace)
	return exitCode(1)
}

// imageTypes are the ones saved, the best first.
var imageTypes = []struct{ mime, ext string }{
	{"image/png", ".png"}, {"image/jpeg", ".jpg"}, {"image/svg+xml", ".svg"},
}

// saveImage writes a result's image and gives its path, or "" if it has none.
func (c *runCmd) saveImage(r api.Result, n int) (string, error) {
	if c.Images == "" {
		return "", nil
	}
	i := slices.IndexFunc(imageTypes, func(t struct{ mime, ext string }) bool { return r.Data[t.mime] != nil })
	if i < 0 {
		return "", nil
	}
	text, _ := stringOf(r.Data[imageTypes[i].mime])
	data := []byte(text)
	if imageTypes[i].ext != ".svg" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return "", fmt.Errorf("image %d: %w", n, err)
		}
	}
	if err := os.MkdirAll(c.Images, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(c.Images, fmt.Sprintf("image-%d%s", n, imageTypes[i].ext))
	return path, os.WriteFile(path, data, 0o644)
}

func stringOf(value json.RawMessage) (string, bool) {
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}
