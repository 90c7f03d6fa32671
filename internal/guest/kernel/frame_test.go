package kernel

import (
	"encoding/json"
	"testing"
)

func TestCommKeepsItsMetadataAndBuffers(t *testing.T) {
	m, err := parseMessage([]byte(`{"header":{"msg_id":"1","msg_type":"comm_msg"},"metadata":{"v":
"2"},"buffers":["aGk="],"content":{"comm_id":"c","data":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"msg_type":"comm_msg","metadata":{"v":"2"},"buffers":["aGk="],"comm_id":"c","data":{}}`
	if got := string(commContent(m)); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got %s, want %s", got, want)
	}
	m, err = parseMessage([]byte(`{"header":{"msg_type":"comm_close"},"metadata":{},"content":{ }}`))
	if got := string(commContent(m)); err != nil || got != `{"msg_type":"comm_close" }` {
		t.Errorf("got %s, %v", got, err)
	}
}
