package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pandastack/api"
	"pandastack/client"
	"pandastack/internal/kit/durable"
)

// notebook is an nbformat 4 document. What is not understood stays as it was.
type notebook struct {
	file  string
	whole map[string]any
	code  []map[string]any // its cells that run

	mayFail bool // the last one that ran
}

// Tags that a notebook's author gives to cells.
const (
	tagSkip  = "skip-execution"
	tagRaise = "raises-exception" // it may fail
)

func tagged(cell map[string]any, tag string) bool {
	metadata, _ := cell["metadata"].(map[string]any)
	tags, _ := metadata["tags"].([]any)
	return slices.Contains(tags, any(tag))
}

// kernel is the one that the notebook asks for. Whatever its author called theirs, for Python it is ours.
func (n *notebook) kernel() api.CreateContext {
	metadata, _ := n.whole["metadata"].(map[string]any)
	spec, _ := metadata["kernelspec"].(map[string]any)
	info, _ := metadata["language_info"].(map[string]any)
	name, _ := spec["name"].(string)
	language, _ := spec["language"].(string)
	if language == "" {
		language, _ = info["name"].(string)
	}
	switch language = strings.ToLower(language); {
	case language == "python", language == "" && strings.HasPrefix(name, "python"):
		return api.CreateContext{}
	case language == "":
		return api.CreateContext{Kernel: name}
	}
	return api.CreateContext{Language: language}
}

func isNotebook(file string) bool { return strings.HasSuffix(strings.ToLower(file), ".ipynb") }

// readNotebook gives a notebook without the outputs it had.
func readNotebook(file string, text []byte) (*notebook, error) {
	n := &notebook{file: file}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&n.whole); err != nil {
		return nil, &localError{message: fmt.Sprintf("%s is no notebook: %v", file, err)}
	}
	cells, ok := n.whole["cells"].([]any)
	if !ok || fmt.Sprint(n.whole["nbformat"]) != "4" {
		return nil, &localError{file + " is no notebook of nbformat 4", "open it in Jupyter and save it again"}
	}
	for _, each := range cells {
		cell, ok := each.(map[string]any)
		if !ok {
			return nil, &localError{message: file + " has a cell that is none"}
		}
		if cell["cell_type"] == "code" && !tagged(cell, tagSkip) {
			cell["outputs"], cell["execution_count"] = []any{}, nil
			n.code = append(n.code, cell)
		}
	}
	return n, nil
}

// writeNotebook writes a notebook as Jupyter does, with sorted names; "" is standard output.
func (s *session) writeNotebook(file string, notebook any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(notebook); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if file == "" {
		_, err := s.Stdout.Write(text.Bytes())
		return err
	}
	return localErrorOf(replaceFile(file, text.Bytes()))
}

// replaceFile leaves the old file where it cannot write all of the new one. What a link
// leads to is replaced, not the link; a device or a pipe is written to.
func replaceFile(file string, data []byte) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(file, data, mode)
		}
		mode = info.Mode().Perm()
	}
	return durable.WriteFile(file, data, mode)
}

// checkFolder finds out before anything runs whether a file can be written there.
func checkFolder(file string) error {
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return &localError{filepath.Dir(file) + " is no folder to write to", "make it first"}
	}
	return nil
}

// sourceOf gives a cell's code, which is a string or a list of lines.
func sourceOf(cell map[string]any) string {
	switch source := cell["source"].(type) {
	case string:
		return source
	case []any:
		var code strings.Builder
		for _, line := range source {
			if text, ok := line.(string); ok {
				code.WriteString(text)
			}
		}
		return code.String()
	}
	return ""
}

// runNotebook runs the code cells until one fails that may not, and gives the last
// execution. With -o the notebook is written with what there is then.
func (c *runCmd) runNotebook(s *session, server *client.Client, box, kernel string, n *notebook) (last api.Execution, err error) {
	if c.Output != "" {
		defer func() {
			if e := s.writeNotebook(c.Output, n.whole); err == nil {
				err = e
			}
		}()
	}
	var out *client.NotebookOutputs
	for at, cell := range n.code {
		code := sourceOf(cell)
		if strings.TrimSpace(code) == "" {
			continue
		}
		if last.Error != nil && !c.JSON {
			fmt.Fprint(s.Stderr, failureText(*last.Error)) // that of the last cell is told at the end
		}
		fmt.Fprintf(s.Stderr, "[%d/%d] %s\n", at+1, len(n.code), firstLine(code))
		out = &client.NotebookOutputs{Before: out}
		show := s.live(c.JSON || c.Output != "") // with -o it is in the file
		last, err = server.Run(s.ctx, box, kernel, api.Execute{Code: code, TimeoutSeconds: c.Timeout}, func(e api.ExecutionEvent) error {
			return errors.Join(out.Add(e), show(e))
		})
		if err != nil {
			return last, err
		}
		cell["outputs"], cell["execution_count"] = out.Finished(last), last.ExecutionCount
		if n.mayFail = tagged(cell, tagRaise); last.Error != nil && !n.mayFail {
			break
		}
	}
	return last, nil
}
