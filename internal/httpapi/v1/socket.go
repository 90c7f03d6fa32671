package v1

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"pandastack/api"
	"pandastack/internal/httpapi"
)

// maxSaid bounds a client's message.
const maxSaid = 2 << 20

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// said is a message of a client that follows an execution.
type said struct {
	Type string `json:"type"` // input or cancel
	Text string `json:"text"`
}

// followBySocket sends a cell's events as messages and does what the client says
// meanwhile. The socket closes normally after done.
func (h *handlers) followBySocket(w http.ResponseWriter, r *http.Request, in InExecution, run func(context.Context, func(api.ExecutionEvent) error) error) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		httpapi.Note(r.Context(), err) // it has answered
		return
	}
	socket.SetReadLimit(maxSaid)
	ctx, cancel := context.WithCancel(r.Context())
	var others sync.WaitGroup
	others.Go(func() {
		defer cancel() // the client left
		h.listen(ctx, socket, in)
	})
	others.Go(func() { keepAlive(ctx, socket) })
	err = run(ctx, func(e api.ExecutionEvent) error { return sendMessage(ctx, socket, wireEvent(e)) })
	if err != nil && ctx.Err() == nil {
		_ = sendMessage(ctx, socket, map[string]any{"type": "failure", "failure": httpapi.ProblemOf(ctx, err)})
	}
	_ = socket.Close(websocket.StatusNormalClosure, "")
	cancel()
	others.Wait()
}

// keepAlive pings where there is silence, so that nobody between takes the
// connection for dead.
func keepAlive(ctx context.Context, socket *websocket.Conn) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if socket.Ping(ctx) != nil {
				return
			}
		}
	}
}

func sendMessage(ctx context.Context, socket *websocket.Conn, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return socket.Write(ctx, websocket.MessageText, data)
}

// listen does what a client says until it leaves. What is refused is told by a
// message and ends nothing.
func (h *handlers) listen(ctx context.Context, socket *websocket.Conn, in InExecution) {
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return
		}
		if err := h.obey(ctx, data, in); err != nil && sendMessage(ctx, socket, map[string]any{"type": "refused", "refused": httpapi.ProblemOf(ctx, err)}) != nil {
			return
		}
	}
}

func (h *handlers) obey(ctx context.Context, data []byte, in InExecution) error {
	var m said
	if err := decode(data, &m); err != nil {
		return invalid("message", "is not one JSON object in UTF-8: "+err.Error())
	}
	switch m.Type {
	case "input":
		return h.Sandboxes.Input(ctx, string(in.ID), string(in.Execution), m.Text)
	case "cancel":
		return h.Sandboxes.CancelExecution(ctx, string(in.ID), string(in.Execution))
	}
	return invalid("message.type", "must be input or cancel")
}
