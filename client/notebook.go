package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"pandastack/api"
)

// maxHistory is as many cells as the server gives of a history.
const maxHistory = 10_000

// Notebook is a document of nbformat 4; as JSON it is an .ipynb file.
type Notebook struct {
	Cells    []NotebookCell `json:"cells"`
	Metadata map[string]any `json:"metadata"`
	Format   int            `json:"nbformat"`
	Minor    int            `json:"nbformat_minor"`
}

// NotebookCell is a code cell that was run.
type NotebookCell struct {
	Type           string           `json:"cell_type"`
	ExecutionCount int              `json:"execution_count"`
	Metadata       map[string]any   `json:"metadata"`
	Outputs        []map[string]any `json:"outputs"`
	Source         []string         `json:"source"`

	// Kept says whether the sandbox still had the outputs. Where it had not, the
	// metadata says so too: pandastack.outputs is "not kept".
	Kept bool `json:"-"`
}

// ExportNotebook gives the cells that a context's kernel ran as a notebook. Cells have
// the outputs that the sandbox still keeps: those of its latest 256 executions, also
// what threads printed later. A kernel that runs a cell refuses it. Unless progress is
// nil, it is called after each cell.
func (c *Client) ExportNotebook(ctx context.Context, id, contextID string, progress func(done, total int)) (Notebook, error) {
	kernel, err := c.Context(ctx, id, contextID)
	if err != nil {
		return Notebook{}, err
	}
	history, err := c.History(ctx, id, contextID, maxHistory)
	if err != nil {
		return Notebook{}, err
	}
	executions, err := c.Executions(ctx, id, contextID)
	if err != nil {
		return Notebook{}, err
	}
	n := Notebook{Cells: []NotebookCell{}, Metadata: map[string]any{"kernelspec": kernelspec(kernel.Language)}, Format: 4, Minor: 4}
	kept := keptOf(executions)
	var out *NotebookOutputs
	for at, entry := range history {
		out = &NotebookOutputs{Before: out}
		outputs, err := c.outputsOf(ctx, id, kept[entry.Line].ID, out)
		if err != nil {
			return Notebook{}, err
		}
		n.Cells = append(n.Cells, notebookCell(entry, outputs))
		if progress != nil {
			progress(at+1, len(history))
		}
	}
	return n, nil
}

func kernelspec(language string) map[string]string {
	if language == "" || language == "python" {
		return map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"}
	}
	return map[string]string{"display_name": strings.ToUpper(language[:1]) + language[1:], "language": language, "name": language}
}

// keptOf gives the cells that have ended by their execution count. Those of a kernel
// before the one there is have the same counts; the latest is meant. Cells without code,
// which come to no history, have the count of the cell before.
func keptOf(executions []api.ExecutionInfo) map[int]api.ExecutionInfo {
	kept := map[int]api.ExecutionInfo{}
	for _, one := range executions {
		if one.EndedAt == nil || one.CommID != "" || strings.TrimSpace(one.Code) == "" {
			continue
		}
		if other, ok := kept[one.ExecutionCount]; !ok || other.EndedAt.Before(*one.EndedAt) {
			kept[one.ExecutionCount] = one
		}
	}
	return kept
}

// outputsOf gives what a cell that has ended left by now; nil where that is not kept.
func (c *Client) outputsOf(ctx context.Context, id, executionID string, out *NotebookOutputs) ([]map[string]any, error) {
	if executionID == "" {
		return nil, nil
	}
	ex, err := c.Follow(ctx, id, executionID, api.Follow{Until: api.FollowNone}, out.Add)
	var refused *Error
	switch {
	case errors.As(err, &refused) && refused.Code == api.CodeExecutionNotFound:
		return nil, nil // there have been 256 others meanwhile
	case err != nil:
		return nil, err
	}
	return out.Finished(ex), nil
}

func notebookCell(entry api.HistoryEntry, outputs []map[string]any) NotebookCell {
	cell := NotebookCell{
		Type: "code", ExecutionCount: entry.Line, Metadata: map[string]any{},
		Outputs: outputs, Source: linesOf(entry.Code), Kept: outputs != nil,
	}
	if !cell.Kept {
		cell.Outputs = []map[string]any{}
		cell.Metadata["pandastack"] = map[string]string{"outputs": "not kept"}
	}
	return cell
}

// NotebookOutputs makes a cell's outputs, as nbformat has them, of its events. The
// zero value is ready.
type NotebookOutputs struct {
	Before *NotebookOutputs // of the cell before, if there is one: an update of a display reaches them too

	items     []map[string]any
	displays  []string // the display id of each
	clearNext bool
}

// Add takes the next event, as a notebook's editor does. Its error is nil: it can be
// the sink of Run and Follow.
func (o *NotebookOutputs) Add(e api.ExecutionEvent) error {
	switch e.Type {
	case "clear_output":
		if o.clearNext = e.Wait; !e.Wait {
			o.items, o.displays = nil, nil
		}
	case "display_update":
		for cell := o; cell != nil; cell = cell.Before {
			cell.update(*e.Result)
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
	return nil
}

func (o *NotebookOutputs) update(r api.Result) {
	for n, id := range o.displays {
		if id != "" && id == r.DisplayID {
			o.items[n]["data"], o.items[n]["metadata"] = bundleOf(r), r.Metadata
		}
	}
}

func (o *NotebookOutputs) show(output map[string]any, display string) {
	if o.clearNext {
		o.clearNext, o.items, o.displays = false, nil, nil
	}
	o.items, o.displays = append(o.items, output), append(o.displays, display)
}

func (o *NotebookOutputs) print(name, text string) {
	if n := len(o.items) - 1; n >= 0 && !o.clearNext && o.items[n]["output_type"] == "stream" && o.items[n]["name"] == name {
		o.items[n]["text"].(*strings.Builder).WriteString(text)
		return
	}
	all := &strings.Builder{} // until Finished
	all.WriteString(text)
	o.show(map[string]any{"output_type": "stream", "name": name, "text": all}, "")
}

// Finished gives the outputs, after the last event.
func (o *NotebookOutputs) Finished(ex api.Execution) []map[string]any {
	told := ex.Error == nil
	for _, item := range o.items {
		switch item["output_type"] {
		case "execute_result":
			item["execution_count"] = ex.ExecutionCount
		case "stream":
			item["text"] = linesOf(item["text"].(*strings.Builder).String())
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
	traceback := []string{}
	if e.Traceback != "" {
		traceback = strings.Split(e.Traceback, "\n")
	}
	return map[string]any{"output_type": "error", "ename": e.Name, "evalue": e.Value, "traceback": traceback}
}

// bundleOf gives a result's representations; text is a list of lines.
func bundleOf(r api.Result) map[string]any {
	data := make(map[string]any, len(r.Data))
	for mime, value := range r.Data {
		var text string
		if json.Unmarshal(value, &text) == nil && (strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" || mime == "application/javascript") {
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
