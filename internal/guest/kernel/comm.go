package kernel

import (
	"encoding/base64"
	"encoding/json"

	"pandastack/internal/guestproto"
)

// commRequest is the content of a comm message.
type commRequest struct {
	CommID       string          `json:"comm_id"`
	TargetName   string          `json:"target_name,omitempty"`
	TargetModule string          `json:"target_module,omitempty"`
	Data         json.RawMessage `json:"data"`
}

// checkComm takes what a kernel may be sent.
func checkComm(c *guestproto.Comm) error {
	switch c.MsgType {
	case guestproto.CommOpen, guestproto.CommMsg, guestproto.CommClose:
	default:
		return guestproto.Errorf(guestproto.CodeInvalid, "comm: want a comm_open, comm_msg or comm_close, got %.40q", c.MsgType)
	}
	if c.CommID == "" || len(c.CommID) > 128 || len(c.TargetName) > 256 || len(c.TargetModule) > 256 {
		return guestproto.Errorf(guestproto.CodeInvalid, "comm: want an id of 1 to 128 bytes, a target's name of at most 256")
	}
	if len(c.Data) > 0 && c.Data[0] != '{' {
		return guestproto.Errorf(guestproto.CodeInvalid, "comm: data is no object")
	}
	for _, buffer := range c.Buffers {
		if _, err := base64.StdEncoding.DecodeString(buffer); err != nil {
			return guestproto.Errorf(guestproto.CodeInvalid, "comm: a buffer is not base64: %v", err)
		}
	}
	return nil
}

// commMessage is what a kernel is sent of a comm message that was checked.
func commMessage(c *guestproto.Comm) message {
	content := commRequest{CommID: c.CommID, TargetName: c.TargetName, TargetModule: c.TargetModule, Data: c.Data}
	if len(content.Data) == 0 {
		content.Data = []byte("{}")
	}
	m := message{Header: header{Type: c.MsgType}, Metadata: c.Metadata}
	m.Content, _ = json.Marshal(content)
	for _, buffer := range c.Buffers {
		b, _ := base64.StdEncoding.DecodeString(buffer)
		m.Buffers = append(m.Buffers, b)
	}
	return m
}

// statusLocked ends the execution of a comm message: it has no reply, but the
// kernel is idle when its callbacks are done.
func (x *execution) statusLocked(m message) {
	if x.comm == "" || !isIdle(m) {
		return
	}
	x.replied = true
	x.done.Status = guestproto.StatusOK
	if x.raised {
		x.done.Status = guestproto.StatusError
	}
}

// commContent puts the message's type, metadata and buffers in front of its
// content's fields.
func commContent(m message) json.RawMessage {
	b := append(make([]byte, 0, len(m.Content)+len(m.more)+32), `{"msg_type":"`+m.Header.Type+`"`...)
	for _, c := range m.more {
		if c != '\n' { // a line break between tokens: there are none in strings
			b = append(b, c)
		}
	}
	if rest := m.Content[1:]; space(rest, 0) < len(rest) && rest[space(rest, 0)] != '}' {
		b = append(b, ',')
	}
	return append(b, m.Content[1:]...)
}
