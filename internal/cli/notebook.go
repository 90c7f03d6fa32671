package cli

import (
	"bytes"
	"encoding/json"
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

// write writes the notebook as Jupyter does, with sorted names.
func (n *notebook) write(file string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(n.whole); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o666); err != nil {
		return &localError{message: err.Error()}
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

// runNotebook runs the code cells until one fails, and gives the last execution.
// With -o the notebook is written with what there is then.
func (c *runCmd) runNotebook(s *session, server *client.Client, box, kernel string, n *notebook) (last api.Execution, err error) {
	if c.Output != "" {
		defer func() {
			if e := n.write(c.Output); err == nil {
				err = e
			}
		}()
	}
	for at, cell := range n.code {
		code := sourceOf(cell)
		if strings.TrimSpace(code) == "" {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
		fmt.Fprintf(s.Stderr, "[%d/%d] %.60s\n", at+1, len(n.code), clean(first))
		var out outputs
		show := c.live(s)
		last, err = server.Run(s.ctx, box, kernel, api.Execute{Code: code, TimeoutSeconds: c.Timeout}, func(e api.ExecutionEvent) error {
			out.add(e)
			if c.Output != "" {
				return nil // it is in the file
			}
			return show(e)
		})
		if err != nil {
			return last, err
		}
		cell["outputs"], cell["execution_count"] = out.finished(last), last.ExecutionCount
		if last.Error != nil {
			return last, nil
		}
	}
	return last, nil
}

// outputs makes a cell's outputs of its events, as a notebook's editor does.
type outputs struct {
	items     []map[string]any
	displays  []string // the display id of each
	clearNext bool
}

func (o *outputs) add(e api.ExecutionEvent) {
	switch e.Type {
	case "clear_output":
		if o.clearNext = e.Wait; !e.Wait {
			o.items, o.displays = nil, nil
		}
	case "display_update":
		for n, id := range o.displays {
			if id != "" && id == e.Result.DisplayID {
				o.items[n]["data"], o.items[n]["metadata"] = bundleOf(*e.Result), e.Result.Metadata
			}
		}
	case "stdout", "stderr":
		o.print(e.Type, e.Text)
	case "result":
		kind := "display_data"
		if e.Result.IsMainResult {
			kind = "execute_result"
		}
		o.show(map[string]any{"output_type": kind, "data": bundleOf(*e.Result), "metadata": e.Result.Metadata}, e.Result.DisplayID)
	case "error":
		o.show(errorOutput(*e.Error), "")
	}
}

func (o *outputs) show(output map[string]any, display string) {
	if o.clearNext {
		o.clearNext, o.items, o.displays = false, nil, nil
	}
	o.items, o.displays = append(o.items, output), append(o.displays, display)
}

func (o *outputs) print(name, text string) {
	if n := len(o.items) - 1; n >= 0 && !o.clearNext && o.items[n]["output_type"] == "stream" && o.items[n]["name"] == name {
		o.items[n]["text"] = o.items[n]["text"].(string) + text
		return
	}
	o.show(map[string]any{"output_type": "stream", "name": name, "text": text}, "")
}

// finished gives the outputs as nbformat has them.
func (o *outputs) finished(ex api.Execution) []map[string]any {
	told := ex.Error == nil
	for _, item := range o.items {
		switch item["output_type"] {
		case "execute_result":
			item["execution_count"] = ex.ExecutionCount
		case "stream":
			item["text"] = linesOf(item["text"].(string))
		case "error":
			told = true
		}
	}
	if !told { // Timeout, KernelDied: no kernel said so
		o.show(errorOutput(*ex.Error), "")
	}
	if o.items == nil {
		return []map[string]any{}
	}
	return o.items
}

func errorOutput(e api.CellError) map[string]any {
	return map[string]any{"output_type": "error", "ename": e.Name, "evalue": e.Value, "traceback": strings.Split(e.Traceback, "\n")}
}

// bundleOf gives a result's representations; text is a list of lines.
func bundleOf(r api.Result) map[string]any {
	data := make(map[string]any, len(r.Data))
	for mime, value := range r.Data {
		text, isText := stringOf(value)
		if isText && (strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" || mime == "application/javascript") {
			data[mime] = linesOf(text)
			continue
		}
		data[mime] = value
	}
	return data
}

// linesOf splits text as nbformat does: joined again it is the same.
func linesOf(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}
