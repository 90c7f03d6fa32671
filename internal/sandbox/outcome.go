package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// statusOf gives a done execution's status; what the API does not know is an error.
func statusOf(d guestproto.Done) string {
	switch d.Status {
	case guestproto.StatusOK, guestproto.StatusTimeout, guestproto.StatusDied, guestproto.StatusAborted:
		return d.Status
	}
	return guestproto.StatusError
}

// endOf gives the error of a done execution; raised is what the cell raised.
func endOf(d guestproto.Done, limit float64, raised *api.CellError) *api.CellError {
	end := &api.CellError{}
	if raised != nil {
		end.Traceback = raised.Traceback
	}
	switch statusOf(d) {
	case guestproto.StatusOK:
		return nil
	case guestproto.StatusTimeout:
		end.Name, end.Value = "Timeout", timeoutSentence(d, limit)
	case guestproto.StatusDied:
		end.Name, end.Value = "KernelDied", deathSentence(d)
		if end.Signal = shorten(d.Signal, 32); end.Signal == "" {
			end.ExitCode = &d.ExitCode
		}
	case guestproto.StatusAborted:
		end.Name, end.Value = "Aborted", "the cell did not run: "+abortReason(d.Reason)
	default:
		if raised != nil {
			return raised
		}
		end.Name, end.Value = "Error", "the cell failed without saying why"
	}
	return end
}

func abortReason(reason string) string {
	switch reason {
	case guestproto.ReasonCancelled:
		return "it was cancelled"
	case guestproto.ReasonBatch:
		return "a cell of its batch failed"
	case guestproto.ReasonDied:
		return "the kernel died under the cell before it"
	}
	return "its context was restarted or deleted first"
}

func timeoutSentence(d guestproto.Done, limit float64) string {
	s := "the cell ran longer than its limit and was interrupted"
	if limit > 0 {
		s = fmt.Sprintf("the cell ran longer than %g s and was interrupted", limit)
	}
	if d.Restarted {
		s += "; it did not stop, so its kernel was killed: the context's variables are lost and its next cell runs in a fresh kernel"
	}
	return s
}

func deathSentence(d guestproto.Done) string {
	how := fmt.Sprintf("the kernel ended with exit code %d", d.ExitCode)
	if d.Signal != "" {
		how = "the kernel was killed by " + shorten(d.Signal, 32)
	}
	if d.Reason == guestproto.ReasonRestarted || d.Reason == guestproto.ReasonDeleted {
		how = "the context was " + d.Reason
	}
	if d.OutOfMemory {
		how = "the machine ran out of memory and the kernel was killed" + memoryFigures(d)
	}
	return how + "; the context's variables are lost and its next cell runs in a fresh kernel"
}

// memoryFigures is empty where the guest has none.
func memoryFigures(d guestproto.Done) string {
	if d.MemoryPeak <= 0 || d.MemoryLimit <= 0 {
		return ""
	}
	return fmt.Sprintf(": it used up to %d MB of the %d MB that cells and processes share", d.MemoryPeak>>20, d.MemoryLimit>>20)
}

// resultOf gives what was displayed.
func resultOf(d guestproto.Display, main bool) api.Result {
	r := api.Result{Data: representations(d.Data), Metadata: d.Metadata, IsMainResult: main, DisplayID: displayID(d)}
	if r.Metadata == nil {
		r.Metadata = map[string]json.RawMessage{}
	}
	return r
}

// fitted leaves a result's largest representations out until the rest fits, and
// says so where the kernel host says the same of what did not fit its frames.
func fitted(r api.Result, limit int64) api.Result {
	size, largest := int64(0), ""
	for mime, value := range r.Data {
		size += int64(len(value))
		if largest == "" || len(value) > len(r.Data[largest]) {
			largest = mime
		}
	}
	if size <= limit {
		return r
	}
	truncated, about := truncatedOf(r)
	truncated[largest] = len(r.Data[largest])
	fits := r
	fits.Data, fits.Metadata = maps.Clone(r.Data), maps.Clone(r.Metadata)
	delete(fits.Data, largest)
	about["truncated"], _ = json.Marshal(truncated)
	fits.Metadata["pandastack"], _ = json.Marshal(about)
	return fitted(fits, limit)
}

// truncatedOf gives the sizes of the representations that a result lacks, and all that
// stands beside them. What is no object is replaced.
func truncatedOf(r api.Result) (sizes map[string]int, about map[string]json.RawMessage) {
	_ = json.Unmarshal(r.Metadata["pandastack"], &about)
	_ = json.Unmarshal(about["truncated"], &sizes)
	if about == nil {
		about = map[string]json.RawMessage{}
	}
	if sizes == nil {
		sizes = map[string]int{}
	}
	return sizes, about
}

func inputOf(q guestproto.InputRequest) *api.InputRequest {
	return &api.InputRequest{Prompt: shorten(q.Prompt, 64<<10), Password: q.Password}
}

// costOf is about what a result takes in memory, so that many small ones count too.
func costOf(r api.Result) int64 {
	const each = 256
	cost := int64(each + len(r.DisplayID))
	for _, bundle := range []map[string]json.RawMessage{r.Data, r.Metadata} {
		for name, value := range bundle {
			cost += int64(each + len(name) + len(value))
		}
	}
	return cost
}

// representations holds a guest to the API's promise: JSON types are any JSON,
// all others strings. Old kernels send those as lists of lines. What is neither
// is left out.
func representations(data map[string]json.RawMessage) map[string]json.RawMessage {
	kept := make(map[string]json.RawMessage, len(data))
	for mime, value := range data {
		if mime == "application/json" || strings.HasSuffix(mime, "+json") || len(value) > 0 && value[0] == '"' {
			kept[mime] = value
			continue
		}
		var lines []string
		if json.Unmarshal(value, &lines) != nil || lines == nil {
			continue
		}
		if joined, err := json.Marshal(strings.Join(lines, "")); err == nil {
			kept[mime] = joined
		}
	}
	return kept
}

func displayID(d guestproto.Display) string {
	var id string
	if json.Unmarshal(d.Transient["display_id"], &id) != nil {
		return ""
	}
	return id
}
