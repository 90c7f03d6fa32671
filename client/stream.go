package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"pandastack/api"
)

// maxFrame bounds one event of a stream.
const maxFrame = 256 << 20

// ExecStream runs a process and writes its output as it comes. A process that
// fails or runs into its limit is no error here; see the exit. It is killed when
// ctx ends.
func (c *Client) ExecStream(ctx context.Context, id string, req api.Exec, stdout, stderr io.Writer) (api.ExecExit, error) {
	var exit *api.ExecExit
	var broken error
	err := c.events(ctx, http.MethodPost, in(id, "/exec/stream"), req, func(event string, data []byte) error {
		switch event {
		case "stdout":
			return writeChunk(stdout, data)
		case "stderr":
			return writeChunk(stderr, data)
		case "exit":
			exit = &api.ExecExit{}
			return json.Unmarshal(data, exit)
		case "error":
			broken = streamError(data) // after a timeout the exit still follows
		}
		return nil
	})
	switch {
	case err != nil:
		return api.ExecExit{}, err
	case exit != nil:
		return *exit, nil
	case broken != nil:
		return api.ExecExit{}, broken
	}
	return api.ExecExit{}, fmt.Errorf("the server ended a process's output without saying how it exited: %w", io.ErrUnexpectedEOF)
}

func writeChunk(w io.Writer, data []byte) error {
	var chunk api.ExecChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	_, err := io.WriteString(w, chunk.Chunk)
	return err
}

// streamError is a refusal that came after the answer had begun.
func streamError(data []byte) error {
	var body api.Error
	if err := json.Unmarshal(data, &body); err != nil || body.Error == "" {
		return fmt.Errorf("the server broke off: %.200s", data)
	}
	return &Error{Status: http.StatusOK, Code: body.Code, Message: body.Error, Hint: body.Hint, Fields: body.Fields, Detail: body.Detail}
}

// LogOptions say which log of a sandbox is meant.
type LogOptions struct {
	Stream string // console, agent or both; "" leaves it to the server
	Follow bool   // go on with what is written from now on
}

// Logs calls sink with each line of a sandbox's logs, without its line break.
func (c *Client) Logs(ctx context.Context, id string, o LogOptions, sink func(line string) error) error {
	query := url.Values{}
	if o.Stream != "" {
		query.Set("stream", o.Stream)
	}
	if !o.Follow {
		return c.plainLogs(ctx, in(id, "/logs?"+query.Encode()), sink)
	}
	query.Set("follow", "true")
	return c.events(ctx, http.MethodGet, in(id, "/logs?"+query.Encode()), nil, func(event string, data []byte) error {
		if event == "error" {
			return streamError(data)
		}
		var entry struct {
			Line *string `json:"line"`
		}
		if err := json.Unmarshal(data, &entry); err != nil || entry.Line == nil {
			return nil // a kind of event this client does not know
		}
		return sink(*entry.Line)
	})
}

func (c *Client) plainLogs(ctx context.Context, path string, sink func(string) error) error {
	resp, err := c.send(ctx, http.MethodGet, path, "", nil, "text/plain")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := sink(strings.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read logs: %w", err)
		}
	}
}

// events makes a request that is answered by server-sent events and calls sink
// with each.
func (c *Client) events(ctx context.Context, method, path string, body any, sink func(event string, data []byte) error) error {
	resp, err := c.sendJSON(ctx, method, path, body, "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := readEvents(resp.Body, sink); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// readEvents parses server-sent events. An event without its end is dropped.
func readEvents(r io.Reader, sink func(event string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxFrame)
	event, data, begun := "", []byte(nil), false
	for lines.Scan() {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && begun:
			if err := sink(event, data); err != nil {
				return err
			}
			event, data, begun = "", nil, false
		case line == "":
			event = ""
		case field == "event":
			event = value
		case field == "data" && begun:
			data = append(append(data, '\n'), value...)
		case field == "data":
			data, begun = []byte(value), true
		}
	}
	return lines.Err()
}
