package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// atCursor is the content of Jupyter's complete_request and inspect_request.
type atCursor struct {
	Code      string `json:"code"`
	CursorPos int    `json:"cursor_pos"`
	Detail    int    `json:"detail_level"`
}

// cursor is the end of code where none was given.
func cursor(code string, at *int) (int, error) {
	end := utf8.RuneCountInString(code)
	if at == nil {
		return end, nil
	}
	if *at < 0 || *at > end {
		return 0, invalid("cursor_pos", fmt.Sprintf("must be from 0 to %d, the length of code in characters", end))
	}
	return *at, nil
}

// Complete gives what may stand at a place in code.
func (s *Service) Complete(ctx context.Context, id, contextID string, req api.Complete) (api.Completion, error) {
	at, err := cursor(req.Code, req.CursorPos)
	if err != nil {
		return api.Completion{}, err
	}
	var r guestproto.CompleteReply
	err = s.ask(ctx, id, contextID, guestproto.AskComplete, atCursor{Code: req.Code, CursorPos: at}, &r)
	if r.Matches == nil {
		r.Matches = []string{}
	}
	return api.Completion(r), err
}

// Inspect says what a name in code is.
func (s *Service) Inspect(ctx context.Context, id, contextID string, req api.Inspect) (api.Inspection, error) {
	at, err := cursor(req.Code, req.CursorPos)
	if err != nil {
		return api.Inspection{}, err
	}
	var r guestproto.InspectReply
	err = s.ask(ctx, id, contextID, guestproto.AskInspect, atCursor{Code: req.Code, CursorPos: at, Detail: req.Detail}, &r)
	return api.Inspection{Found: r.Found, Data: representations(r.Data)}, err
}

// IsComplete says whether code is all of a cell.
func (s *Service) IsComplete(ctx context.Context, id, contextID string, req api.IsComplete) (api.Completeness, error) {
	var r guestproto.IsCompleteReply
	err := s.ask(ctx, id, contextID, guestproto.AskIsComplete, atCursor{Code: req.Code}, &r)
	switch r.Status {
	case "complete", "incomplete", "invalid":
	default:
		r.Status = "unknown"
	}
	return api.Completeness{Status: r.Status, Indent: shorten(r.Indent, 256)}, err
}

// History gives the latest n cells that a context ran, the oldest first.
func (s *Service) History(ctx context.Context, id, contextID string, n int) (api.History, error) {
	var r guestproto.HistoryReply
	tail := map[string]any{"hist_access_type": "tail", "n": n, "raw": true, "output": false}
	if err := s.ask(ctx, id, contextID, guestproto.AskHistory, tail, &r); err != nil {
		return api.History{}, err
	}
	h := api.History{Items: make([]api.HistoryEntry, 0, len(r.History))}
	for _, entry := range r.History {
		var one api.HistoryEntry
		if json.Unmarshal(entry[0], &one.Session) != nil || json.Unmarshal(entry[1], &one.Line) != nil || json.Unmarshal(entry[2], &one.Code) != nil {
			continue // no entry of a history
		}
		h.Items = append(h.Items, one)
	}
	return h, nil
}

// ask puts a question to a context's kernel.
func (s *Service) ask(ctx context.Context, id, contextID, kind string, question, answer any) error {
	content, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("ask %s: %w", kind, err)
	}
	return s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		raw, err := g.Ask(ctx, contextID, kind, content)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, answer)
	})
}
