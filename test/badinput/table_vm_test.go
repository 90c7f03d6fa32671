//go:build vm

package badinput

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pandastack/api"
)

// TestEveryCall sends each call of the API what it must refuse.
func TestEveryCall(t *testing.T) {
	p := newPlace(t)
	sent := 0
	for _, o := range operations(t) {
		t.Run(strings.ReplaceAll(o.String(), "/", "·"), func(t *testing.T) {
			for _, c := range casesOf(p, o) {
				sent++
				t.Run(c.name, func(t *testing.T) { p.refused(t, c.method, c.path, c.body, c.header, c.codes...) })
			}
		})
	}
	t.Logf("%d requests refused", sent)
	p.onlyOurs(t)
}

// onlyOurs holds the table to having made nothing and broken nothing.
func (p *place) onlyOurs(t *testing.T) {
	t.Helper()
	boxes, err := p.Sandboxes(t.Context())
	if err != nil || len(boxes) != 1 {
		t.Errorf("got %d sandboxes, %v; want the one that was there", len(boxes), err)
	}
	var kernels api.ContextList
	p.Get(t, "/v1/sandboxes/"+p.box+"/contexts", &kernels)
	if len(kernels.Items) != 1 || kernels.Items[0].Restarts != 0 {
		t.Errorf("got contexts %+v; want the one that was there", kernels.Items)
	}
	if got := p.Text(t, p.box, p.kernel, "6 * 7"); got != "42" {
		t.Errorf("got %s from a cell", got)
	}
}

type refusal struct {
	name, method, path, body string
	header                   []string
	codes                    []string
}

func casesOf(p *place, o operation) []refusal {
	all := append(keyCases(p, o), pathCases(p, o)...)
	if o.Body != nil {
		all = append(all, textCases(p, o)...)
		all = append(all, shapeCases(p, o)...)
	}
	return all
}

func keyCases(p *place, o operation) []refusal {
	if o.Path == "/v1/health" {
		return nil
	}
	valid := o.at(p)
	var all []refusal
	for name, value := range map[string]string{"no key": "", "key without its scheme": p.Key, "empty key": "Bearer ", "other scheme": "Basic " + p.Key} {
		all = append(all, refusal{name, o.Method, valid, "", []string{"Authorization", value}, []string{api.CodeAuthMissingKey}})
	}
	for name, value := range map[string]string{
		"wrong key": "pds_wrong", "key of another case": strings.ToUpper(p.Key), "key and more": p.Key + "x",
		"half a key": p.Key[:len(p.Key)/2], "huge key": strings.Repeat("k", 32<<10),
	} {
		all = append(all, refusal{name, o.Method, valid, "", []string{"Authorization", "Bearer " + value}, []string{api.CodeAuthWrongKey}})
	}
	return all
}

// codeOfName is the refusal of what is filled into a path.
var codeOfName = map[string]string{
	"{id}": api.CodeSandboxNotFound, "{context}": api.CodeContextNotFound, "{session}": api.CodeContextNotFound,
	"{execution}": api.CodeExecutionNotFound, "{snapshot}": api.CodeSnapshotNotFound, "{name}": api.CodeTemplateNotFound,
}

func pathCases(p *place, o operation) []refusal {
	all := []refusal{{"unknown method", "BREW", o.at(p), "", nil, []string{api.CodeRequestMethodNotAllowed}}}
	for name, code := range codeOfName {
		if !strings.Contains(o.Path, name) {
			continue
		}
		for what, value := range map[string]string{
			"unknown": "aaaaaaaaaaaaaaaaaaaa", "escape": "..%2f..%2fetc%2fpasswd", "dots": "..%00", "NUL": "a%00b", "not UTF-8": "%ff%fe",
			"long": strings.Repeat("a", 8<<10), "blank": "%20", "line break": "a%0d%0ab", "quotes": "%27%22%3b--", "of another kind": "%F0%9F%90%BC",
		} {
			codes := []string{code}
			if name == "{name}" {
				codes = append(codes, api.CodeRequestInvalid) // the document bounds its length
			}
			all = append(all, refusal{name + " " + what, o.Method, o.at(p, name, value), o.validBody(), nil, codes})
		}
	}
	if strings.Contains(o.Path, "/fs") {
		all = append(all, filePathCases(p, o)...)
	}
	return all
}

func filePathCases(p *place, o operation) []refusal {
	path, _, _ := strings.Cut(o.at(p), "?")
	all := []refusal{
		{"no path", o.Method, path, "", nil, []string{api.CodeRequestInvalid}},
		{"empty path", o.Method, path + "?path=", "", nil, []string{api.CodeRequestInvalid, api.CodeFilePathInvalid}},
		{"path of another case", o.Method, path + "?Path=/tmp/x", "", nil, []string{api.CodeRequestInvalid}},
	}
	for name, value := range map[string]string{"NUL": "/tmp/a%00b", "not UTF-8": "/tmp/%ff", "long": strings.Repeat("a/", 5000)} {
		all = append(all, refusal{"path: " + name, o.Method, path + "?path=" + value, "x", nil, []string{api.CodeFilePathInvalid}})
	}
	escape := []string{api.CodeFilePathInvalid, api.CodeFileNotFound, api.CodeFileIsDirectory, api.CodeFileNotDirectory, api.CodeFilePermission}
	for name, value := range map[string]string{
		"escape": "../../etc/passwd", "escape in the middle": "a/../../../etc/passwd", "long name": "/tmp/" + strings.Repeat("n", 300),
		"below a file": "/etc/passwd/x", "below a device": "/dev/null/x",
	} {
		all = append(all, refusal{"path: " + name, o.Method, path + "?path=" + value, "x", nil, escape})
	}
	return all
}

func textCases(p *place, o operation) []refusal {
	bad := map[string]string{
		"not JSON": "{", "text": "hello", "two documents": o.validBody() + " {}", "not UTF-8": "{\"a\":\"\xff\xfe\"}",
		"half a surrogate pair": `{"a":"\ud800"}`, "swapped surrogates": `{"a":"\udc00\ud800"}`,
		"NUL": "{\"a\":\"\x00\"}", "escaped NUL": `{"a":"\u0000"}`, "trailing comma": `{"a":1,}`, "NaN": `{"a":NaN}`, "Infinity": `{"a":-Infinity}`,
		"deep lists":    `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}",
		"deep and open": strings.Repeat(`{"a":`, 100_000), "UTF-16": "\xff\xfe{\x00}\x00", "BOM": "\xef\xbb\xbf{}",
	}
	if o.Required {
		bad["nothing"] = ""
	}
	var all []refusal
	for name, body := range bad {
		all = append(all, refusal{name, o.Method, o.at(p), body, nil, []string{api.CodeRequestBadJSON}})
	}
	huge := `{"a":"` + strings.Repeat("x", 17<<20) + `"}`
	return append(all, refusal{"huge", o.Method, o.at(p), huge, nil, []string{api.CodeRequestTooLarge}})
}

func shapeCases(p *place, o operation) []refusal {
	bad := map[string]string{
		"list": "[]", "string": `"x"`, "number": "7", "bool": "true",
		"unknown field": o.with("no_such_field", "1"), "huge name": o.with(strings.Repeat("n", 100_000), "1"), "empty name": o.with("", "1"),
	}
	if o.Required {
		bad["null"] = "null"
	}
	for name, property := range o.Body.Properties {
		for kind, value := range wrongFor(property) {
			bad[name+" "+kind] = o.with(name, value)
		}
	}
	for _, name := range o.Body.Required {
		bad[name+" missing"] = "{}"
	}
	var all []refusal
	for name, body := range bad {
		codes := []string{api.CodeRequestInvalid, api.CodeFeatureNotOffered}
		if strings.HasSuffix(name, "beyond") { // no machine has a number for it
			codes = append(codes, api.CodeRequestBadJSON)
		}
		all = append(all, refusal{name, o.Method, o.at(p), body, nil, codes})
	}
	return all
}

// wrongFor gives values that a property must not take.
func wrongFor(s *schema) map[string]string {
	switch s.Type {
	case "string":
		return map[string]string{"number": "7", "list": `["a"]`, "object": "{}", "bool": "true"}
	case "integer":
		return map[string]string{"string": `"1"`, "fraction": "1.5", "negative": "-1", "huge": "1e18", "beyond": "1e400", "list": "[1]", "digits beyond": strings.Repeat("9", 5000)}
	case "number":
		return map[string]string{"string": `"1"`, "negative": "-0.5", "huge": "1e300", "beyond": "1e400", "list": "[1]", "digits beyond": strings.Repeat("9", 5000)}
	case "boolean":
		return map[string]string{"string": `"true"`, "number": "1"}
	case "array":
		return map[string]string{"string": `"a"`, "object": "{}"}
	case "object":
		return map[string]string{"string": `"a"`, "list": "[]", "number in it": `{"A":1}`, "null in it": `{"A":null}`, "object in it": `{"A":{}}`}
	}
	return nil
}

const leastComm = `{"msg_type":"comm_msg","comm_id":"none"}`

// validBody is the least the call takes; nothing is run by it.
func (o operation) validBody() string {
	switch {
	case o.Binary:
		return "x"
	case o.Body == nil:
		return ""
	}
	return "{" + strings.Join(o.leastExcept(""), ",") + "}"
}

func (o operation) with(name, value string) string {
	return "{" + strings.Join(append(o.leastExcept(name), fmt.Sprintf("%q:%s", name, value)), ",") + "}"
}

func (o operation) leastExcept(name string) []string {
	var fields []string
	for _, required := range []struct{ name, value string }{{"code", `"pass"`}, {"cmd", `"pass"`}, {"text", `"pass"`}, {"count", "1"}, {"comm", leastComm}} {
		if o.Body.Properties[required.name] != nil && name != required.name {
			fields = append(fields, fmt.Sprintf("%q:%s", required.name, required.value))
		}
	}
	return fields
}

// TestContextOfAnother: ids are of one sandbox only.
func TestContextOfAnother(t *testing.T) {
	p := newPlace(t)
	other := p.NewSandbox(t).ID
	ex := p.Run(t, p.box, p.kernel, "1")
	in := "/v1/sandboxes/" + other
	for _, c := range []refusal{
		{"get", "GET", in + "/contexts/" + p.kernel, "", nil, []string{api.CodeContextNotFound}},
		{"delete", "DELETE", in + "/contexts/" + p.kernel, "", nil, []string{api.CodeContextNotFound}},
		{"interrupt", "POST", in + "/contexts/" + p.kernel + "/interrupt", "", nil, []string{api.CodeContextNotFound}},
		{"run", "POST", in + "/contexts/" + p.kernel + "/executions", `{"code":"1"}`, nil, []string{api.CodeContextNotFound}},
		{"comm", "POST", in + "/contexts/" + p.kernel + "/comms", `{"comm":` + leastComm + `}`, nil, []string{api.CodeContextNotFound}},
		{"restart", "POST", in + "/contexts/" + p.kernel + "/restart", "", nil, []string{api.CodeContextNotFound}},
		{"queue", "GET", in + "/contexts/" + p.kernel + "/executions", "", nil, []string{api.CodeContextNotFound}},
		{"history", "GET", in + "/contexts/" + p.kernel + "/history", "", nil, []string{api.CodeContextNotFound}},
		{"events", "GET", in + "/executions/" + ex.ID + "/events", "", nil, []string{api.CodeExecutionNotFound}},
		{"output", "GET", in + "/executions/" + ex.ID + "/output", "", nil, []string{api.CodeExecutionNotFound}},
		{"cancel", "POST", in + "/executions/" + ex.ID + "/cancel", "", nil, []string{api.CodeExecutionNotFound}},
		{"session run", "POST", in + "/repl/sessions/" + p.kernel + "/run", `{"code":"1"}`, nil, []string{api.CodeContextNotFound}},
		{"session delete", "DELETE", in + "/repl/sessions/" + p.kernel, "", nil, []string{api.CodeContextNotFound}},
		{"execution", "GET", in + "/executions/" + ex.ID, "", nil, []string{api.CodeExecutionNotFound}},
	} {
		t.Run(c.name, func(t *testing.T) { p.refused(t, c.method, c.path, c.body, c.header, c.codes...) })
	}
	if got := p.Text(t, p.box, p.kernel, "6 * 7"); got != "42" {
		t.Errorf("got %s from a cell", got)
	}
}

// TestOtherContentTypes: a body is JSON whatever its type says, and a file is its bytes.
func TestOtherContentTypes(t *testing.T) {
	p := newPlace(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "no type", strings.Repeat("t", 8<<10)} {
		t.Run(fmt.Sprintf("%.40q", kind), func(t *testing.T) {
			header := []string{"Content-Type", kind}
			if status, body := p.Call(t, http.MethodPatch, "/v1/sandboxes/"+p.box+"/lifecycle", `{"ttl_seconds":0}`, header...); status != http.StatusOK {
				t.Errorf("JSON: %d %s", status, body)
			}
			if status, body := p.Call(t, http.MethodPut, "/v1/sandboxes/"+p.box+"/fs?path=typed", kind, header...); status != http.StatusOK {
				t.Errorf("file: %d %s", status, body)
			}
			if _, body := p.Call(t, http.MethodGet, "/v1/sandboxes/"+p.box+"/fs?path=typed", ""); string(body) != kind {
				t.Errorf("the file has %q, want %q", body, kind)
			}
			p.refused(t, http.MethodPatch, "/v1/sandboxes/"+p.box+"/lifecycle", "ttl_seconds=1", header, api.CodeRequestBadJSON)
		})
	}
}

// TestEdges: what is odd and not wrong, or wrong in a way of its own.
func TestEdges(t *testing.T) {
	p := newPlace(t)
	in := "/v1/sandboxes/" + p.box
	kernel := in + "/contexts/" + p.kernel
	ran := in + "/executions/" + p.Run(t, p.box, p.kernel, "'ran'").ID
	for _, c := range []struct {
		name, method, path, body string
		codes                    []string // none: it is fine
	}{
		{"events after none", "GET", ran + "/events?after=-1", "", []string{api.CodeRequestInvalid}},
		{"events after text", "GET", ran + "/events?after=x", "", []string{api.CodeRequestInvalid}},
		{"events after all", "GET", ran + "/events?after=9223372036854775807", "", nil},
		{"events after more", "GET", ran + "/events?after=9223372036854775808", "", []string{api.CodeRequestInvalid}},
		{"events for ever", "GET", ran + "/events?follow=ever", "", []string{api.CodeRequestInvalid}},
		{"events by now", "GET", ran + "/events?follow=none", "", nil},
		{"comm that nobody knows", "POST", kernel + "/comms", `{"comm":` + leastComm + `}`, nil},
		{"comm that is a cell", "POST", kernel + "/comms", `{"comm":{"msg_type":"execute_request","comm_id":"c"}}`, []string{api.CodeRequestInvalid}},
		{"comm without an id", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":""}}`, []string{api.CodeRequestInvalid}},
		{"comm with a long id", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":"` + strings.Repeat("c", 129) + `"}}`, []string{api.CodeRequestInvalid}},
		{"comm with code", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":"c","code":"1"}}`, []string{api.CodeRequestInvalid}},
		{"comm with a list", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":"c","data":[]}}`, []string{api.CodeRequestInvalid}},
		{"comm with a buffer of text", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":"c","buffers":["?"]}}`, []string{api.CodeRequestInvalid}},
		{"comm with a buffer that is none", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_msg","comm_id":"c","buffers":[1]}}`, []string{api.CodeRequestInvalid}},
		{"comm to nowhere", "POST", kernel + "/comms", `{"comm":{"msg_type":"comm_open","comm_id":"c","target_name":"none"}}`, nil},
		{"negative budget", "GET", ran + "/events?stream_bytes=-1", "", []string{api.CodeRequestInvalid}},
		{"huge budget", "GET", ran + "?result_bytes=1000000000000", "", []string{api.CodeRequestInvalid}},
		{"huge budget of a cell", "POST", kernel + "/executions", `{"code":"1","output":{"stream_bytes":99999999}}`, []string{api.CodeRequestInvalid}},
		{"budget of text", "POST", kernel + "/executions", `{"code":"1","output":{"stream_bytes":"9"}}`, []string{api.CodeRequestInvalid}},
		{"output of both", "GET", ran + "/output?stream=both", "", []string{api.CodeRequestInvalid}},
		{"cancel what has ended", "POST", ran + "/cancel", "", nil},
		{"input that nobody wants", "POST", ran + "/input", `{"text":"x"}`, []string{api.CodeExecutionNoInput}},
		{"id of another cell", "POST", kernel + "/executions", `{"code":"1","id":"` + strings.TrimPrefix(ran, in+"/executions/") + `"}`, []string{api.CodeExecutionTaken}},
		{"id with a slash", "POST", kernel + "/executions", `{"code":"1","id":"../x"}`, []string{api.CodeRequestInvalid}},
		{"long batch", "POST", kernel + "/executions", `{"code":"1","batch":"` + strings.Repeat("b", 65) + `"}`, []string{api.CodeRequestInvalid}},
		{"cursor behind the end", "POST", kernel + "/complete", `{"code":"ü","cursor_pos":2}`, []string{api.CodeRequestInvalid}},
		{"no history", "GET", kernel + "/history?limit=0", "", []string{api.CodeRequestInvalid}},
		{"detail of three", "POST", kernel + "/inspect", `{"code":"x","detail":3}`, []string{api.CodeRequestInvalid}},
		{"empty code", "POST", in + "/contexts/" + p.kernel + "/executions", `{"code":""}`, nil},
		{"empty command", "POST", in + "/exec", `{"cmd":""}`, []string{api.CodeRequestInvalid}},
		{"empty arguments", "POST", in + "/exec", `{"argv":[""]}`, []string{api.CodeRequestInvalid}},
		{"huge argument", "POST", in + "/exec", `{"argv":["true","` + strings.Repeat("a", 3<<20) + `"]}`, []string{api.CodeRequestInvalid}},
		{"huge environment", "POST", in + "/exec", `{"cmd":"true","env":{"A":"` + strings.Repeat("a", 3<<20) + `"}}`, []string{api.CodeRequestInvalid}},
		{"name with an equals sign", "POST", in + "/exec", `{"cmd":"true","env":{"A=B":"x"}}`, []string{api.CodeRequestInvalid}},
		{"no such folder", "POST", in + "/exec", `{"cmd":"true","cwd":"/none"}`, []string{api.CodeRequestInvalid, api.CodeFileNotFound}},
		{"folder that is none", "POST", in + "/contexts", `{"cwd":"/etc/passwd"}`, []string{api.CodeFileNotFound, api.CodeFileNotDirectory}},
		{"folder that is not there", "POST", in + "/contexts", `{"cwd":"/none"}`, []string{api.CodeFileNotFound}},
		{"no such program", "POST", in + "/exec", `{"argv":["/none"]}`, []string{api.CodeRequestInvalid, api.CodeFileNotFound}},
		{"language", "POST", in + "/contexts", `{"language":"cobol"}`, []string{api.CodeContextUnsupportedLanguage}},
		{"huge language", "POST", in + "/contexts", `{"language":"` + strings.Repeat("x", 100_000) + `"}`, []string{api.CodeRequestInvalid}},
		{"kernel that is a path", "POST", in + "/contexts", `{"kernel":"../../etc/passwd"}`, []string{api.CodeContextUnsupportedLanguage, api.CodeRequestInvalid}},
		{"half a cell", "POST", in + "/contexts/" + p.kernel + "/executions", `{"code":"print(\ud83d)"}`, []string{api.CodeRequestBadJSON}},
		{"whole pair", "POST", in + "/contexts/" + p.kernel + "/executions", `{"code":"print('\ud83d\ude00')"}`, nil},
		{"template with dots", "POST", "/v1/sandboxes", `{"template":"../../etc"}`, []string{api.CodeTemplateNotFound}},
		{"empty metadata name", "POST", "/v1/sandboxes", `{"template":"none","metadata":{"":""}}`, []string{api.CodeTemplateNotFound}},
		{"write a folder", "PUT", in + "/fs?path=/etc", "x", []string{api.CodeFileIsDirectory, api.CodeFilePathInvalid}},
		{"write to a device", "PUT", in + "/fs?path=/dev/null", "x", []string{api.CodeFilePathInvalid, api.CodeFilePermission}},
		{"read a device", "GET", in + "/fs?path=/dev/zero", "", []string{api.CodeFilePathInvalid, api.CodeFilePermission}},
		{"read what has no size", "GET", in + "/fs?path=/proc/self/mem", "", []string{api.CodeFilePathInvalid, api.CodeFilePermission}},
		{"unknown stream", "GET", in + "/logs?stream=other", "", []string{api.CodeRequestInvalid}},
		{"follow that is none", "GET", in + "/logs?follow=perhaps", "", []string{api.CodeRequestInvalid}},
		{"no such path", "GET", "/v1/nothing", "", []string{api.CodeRequestNoSuchRoute}},
		{"ports", "GET", in + "/ports", "", []string{api.CodeFeatureNotOffered}},
		{"name of a snapshot with a slash", "POST", in + "/snapshots", `{"name":"a/b"}`, []string{api.CodeRequestInvalid}},
		{"no such snapshot", "POST", "/v1/sandboxes", `{"from_snapshot":"none"}`, []string{api.CodeSnapshotNotFound}},
		{"snapshot with dots", "POST", "/v1/sandboxes", `{"from_snapshot":"../../etc"}`, []string{api.CodeSnapshotNotFound, api.CodeRequestInvalid}},
		{"no copies", "POST", in + "/fork-tree", `{"count":0}`, []string{api.CodeRequestInvalid}},
		{"too many copies", "POST", in + "/fork-tree", `{"count":17}`, []string{api.CodeRequestInvalid}},
		{"woken from elsewhere", "POST", in + "/wake", `{"from":"tape"}`, []string{api.CodeRequestInvalid}},
		{"promotion of what is no copy", "POST", in + "/promote", "{}", []string{api.CodeRequestInvalid}},
		{"unknown end", "PATCH", in + "/lifecycle", `{"on_timeout":"explode"}`, []string{api.CodeRequestInvalid}},
		{"negative idle time", "PATCH", in + "/lifecycle", `{"idle_timeout_seconds":-1}`, []string{api.CodeRequestInvalid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := p.Call(t, c.method, c.path, c.body)
			if c.codes == nil {
				if status/100 != 2 {
					t.Errorf("got %d %.300s, want 200", status, body)
				}
				return
			}
			assertRefusal(t, status, body, c.codes...)
		})
	}
	p.onlyOurs(t)
}
