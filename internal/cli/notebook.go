package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"pandastack/api"
	"pandastack/client"
)

// notebook is an nbformat 4 document. What is not understood stays as it was.
type notebook struct {
	file  string
	whole map[string]any
	code  []map[string]any // its code cells
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
		if cell["cell_type"] == "code" {
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
	return localErrorOf(os.WriteFile(file, text.Bytes(), 0o666))
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

// runNotebook runs the code cells until one fails, and gives the last execution.
// With -o the notebook is written with what there is then.
func (c *runCmd) runNotebook(s *session, server *client.Client, box, kernel string, n *notebook) (last api.Execution, err error) {
	if c.Output != "" {
		defer func() {
			if e := s.writeNotebook(c.Output, n.whole); err == nil {
				err = e
			}
		}()
	}
	for at, cell := range n.code {
		code := sourceOf(cell)
		if strings.TrimSpace(code) == "" {
			continue
		}
		fmt.Fprintf(s.Stderr, "[%d/%d] %s\n", at+1, len(n.code), firstLine(code))
		var out client.NotebookOutputs
		show := s.live(c.JSON || c.Output != "") // with -o it is in the file
		last, err = server.Run(s.ctx, box, kernel, api.Execute{Code: code, TimeoutSeconds: c.Timeout}, func(e api.ExecutionEvent) error {
			return errors.Join(out.Add(e), show(e))
		})
		if err != nil {
			return last, err
		}
		cell["outputs"], cell["execution_count"] = out.Finished(last), last.ExecutionCount
		if last.Error != nil {
			return last, nil
		}
	}
	return last, nil
}
